// The emulator's HCCL: what the collectives give, in which order they add, and what happens when ranks misbehave.
#include "rlcore/emulator/collectives.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/emulator/runtime.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::ascend;
using rlcore::bf16;
using std::size_t;
using testing::ElementsAre;
using testing::HasSubstr;

const calls& api() {
  static const calls table = [] {
    calls t;
    emulated::fill(t.rt);
    emulated::fill(t.comm);
    return t;
  }();
  return table;
}

/// One rank: a device, a stream and a communicator.
struct rank_view {
  int rank = 0;
  HcclComm comm = nullptr;
  aclrtStream stream = nullptr;

  template <class T>
  void* device(const std::vector<T>& host) const {
    void* p = nullptr;
    EXPECT_EQ(api().rt.aclrtMalloc(&p, host.size() * sizeof(T) + 1, memory_policy::huge_first), 0);
    const size_t bytes = host.size() * sizeof(T);
    EXPECT_EQ(api().rt.aclrtMemcpy(p, bytes + 1, host.data(), bytes, copy_kind::host_to_device), 0);
    memory_.push_back(p);
    return p;
  }
  template <class T>
  std::vector<T> host(const void* p, size_t n) const {
    EXPECT_EQ(wait(), 0);
    std::vector<T> v(n);
    EXPECT_EQ(api().rt.aclrtMemcpy(v.data(), n * sizeof(T), p, n * sizeof(T), copy_kind::device_to_host), 0);
    return v;
  }
  aclError wait() const { return api().rt.aclrtSynchronizeStream(stream); }
  mutable std::vector<void*> memory_;
};

/// f(rank_view) in `ranks` threads of a fresh machine; what is left over must be nothing.
void in_ranks(int ranks, const std::function<void(rank_view&)>& f, emulated::settings s = {}) {
  s.devices = ranks;
  emulated::configure(s);
  const calls& c = api();
  ASSERT_EQ(c.rt.aclInit(nullptr), 0);
  ASSERT_EQ(c.rt.aclrtSetDevice(0), 0);
  hccl_root_info root;
  ASSERT_EQ(c.comm.HcclGetRootInfo(&root), 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      rank_view me;
      me.rank = r;
      ASSERT_EQ(c.rt.aclrtSetDevice(r), 0);
      ASSERT_EQ(c.rt.aclrtCreateStream(&me.stream), 0);
      ASSERT_EQ(c.comm.HcclCommInitRootInfo(static_cast<std::uint32_t>(ranks), &root, static_cast<std::uint32_t>(r),
                                            &me.comm),
                0)
          << c.rt.aclGetRecentErrMsg();
      f(me);
      if (me.comm != nullptr) {
        EXPECT_EQ(c.comm.HcclCommDestroy(me.comm), 0);
      }
      EXPECT_EQ(c.rt.aclrtDestroyStream(me.stream), 0);
      for (void* p : me.memory_) EXPECT_EQ(c.rt.aclrtFree(p), 0);
      EXPECT_EQ(c.rt.aclrtResetDevice(r), 0);
    });
  for (std::thread& t : threads) t.join();
  ASSERT_EQ(c.rt.aclrtResetDevice(0), 0);
  ASSERT_EQ(c.rt.aclFinalize(), 0);
  EXPECT_EQ(emulated::last_report(), "");
}

/// Where the sum of rank r's values x[r], the same for all elements, depends on the order: element p of `ranks`
/// elements is in part p of the ring.
template <class T>
std::vector<float> ring_sum(const std::vector<float>& x, hccl_type type, emulated::settings s = {},
                            bool ordered = true) {
  const size_t n = x.size();
  std::vector<float> result;
  in_ranks(
      static_cast<int>(n),
      [&](rank_view& me) {
        EXPECT_EQ(api().rt.aclrtCtxSetSysParamOpt(system_option::deterministic, ordered ? 1 : 0), 0);
        void* in = me.device(std::vector<T>(n, T(x[static_cast<size_t>(me.rank)])));
        void* out = me.device(std::vector<T>(n));
        EXPECT_EQ(api().comm.HcclAllReduce(in, out, n, type, hccl_reduction::sum, me.comm, me.stream), 0);
        const auto got = me.host<T>(out, n);
        if (me.rank == 0)
          for (const T v : got) result.push_back(static_cast<float>(v));
      },
      s);
  return result;
}

TEST(collectives, sums_travel_a_ring_and_are_rounded_at_every_hop) {
  // Part p starts behind rank p and ends at it. 1 is lost beside 1e8 in float.
  EXPECT_THAT(ring_sum<float>({1e8F, 1, -1e8F, 1}, hccl_type::float32), ElementsAre(0, 1, 0, 1));
  // 2^-8 is half a unit in the last place of bfloat16's 1: lost alone, not lost three together.
  const float h = 0x1p-8F;
  EXPECT_THAT(ring_sum<bf16>({1, h, h, h}, hccl_type::bfloat16),
              ElementsAre(1.015625F, 1 + 0x1p-6F, 1.0F, 1.0F));  // parts 1 and 2: h + h + 1 and h + 1, then the rest
  emulated::settings exact;
  exact.reference = true;
  EXPECT_THAT(ring_sum<float>({1e8F, 1, -1e8F, 1}, hccl_type::float32, exact), ElementsAre(2, 2, 2, 2));
}

TEST(collectives, sums_without_an_order_follow_the_seed) {
  std::vector<std::vector<float>> results;
  for (const unsigned seed : {1u, 1u, 2u, 3u, 4u, 5u}) {
    emulated::settings s;
    s.seed = seed;
    results.push_back(ring_sum<float>({1e8F, 1, -1e8F, 1}, hccl_type::float32, s, false));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_NE(results, (std::vector<std::vector<float>>(6, results[0])));
  for (const auto& r : results)
    for (const float v : r) EXPECT_TRUE(v == 0 || v == 1 || v == 2) << v;
  ASSERT_EQ(setenv("HCCL_DETERMINISTIC", "true", 1), 0);
  emulated::settings s;
  s.seed = 2;
  EXPECT_THAT(ring_sum<float>({1e8F, 1, -1e8F, 1}, hccl_type::float32, s, false), ElementsAre(0, 1, 0, 1));
  ASSERT_EQ(unsetenv("HCCL_DETERMINISTIC"), 0);
}

TEST(collectives, reductions) {
  in_ranks(3, [](rank_view& me) {
    const auto& comm = api().comm;
    const int r = me.rank;
    void* in = me.device(std::vector<std::int32_t>{r + 1, -r, 7});
    void* out = me.device(std::vector<std::int32_t>(3));
    const auto reduce = [&](hccl_reduction op) {
      EXPECT_EQ(comm.HcclAllReduce(in, out, 3, hccl_type::int32, op, me.comm, me.stream), 0);
      return me.host<std::int32_t>(out, 3);
    };
    EXPECT_THAT(reduce(hccl_reduction::sum), ElementsAre(6, -3, 21));
    EXPECT_THAT(reduce(hccl_reduction::product), ElementsAre(6, 0, 343));
    EXPECT_THAT(reduce(hccl_reduction::maximum), ElementsAre(3, 0, 7));
    EXPECT_THAT(reduce(hccl_reduction::minimum), ElementsAre(1, -2, 7));
    void* wide = me.device(std::vector<float>{1, 2, 3, 4, 5, 6});
    void* part = me.device(std::vector<float>(2));
    EXPECT_EQ(comm.HcclReduceScatter(wide, part, 2, hccl_type::float32, hccl_reduction::sum, me.comm, me.stream), 0);
    EXPECT_THAT(me.host<float>(part, 2),
                ElementsAre(3 * static_cast<float>(2 * r + 1), 3 * static_cast<float>(2 * r + 2)));
  });
}

TEST(collectives, movement) {
  in_ranks(3, [](rank_view& me) {
    const auto& comm = api().comm;
    const int r = me.rank;
    using list = std::vector<std::int64_t>;
    const hccl_type type = hccl_type::int64;
    void* one = me.device(list{10 + r, 20 + r});
    void* all = me.device(list(6));
    EXPECT_EQ(comm.HcclAllGather(one, all, 2, type, me.comm, me.stream), 0);
    EXPECT_EQ(me.host<std::int64_t>(all, 6), (list{10, 20, 11, 21, 12, 22}));
    EXPECT_EQ(comm.HcclBroadcast(one, 2, type, 1, me.comm, me.stream), 0);
    EXPECT_EQ(me.host<std::int64_t>(one, 2), (list{11, 21}));
    void* out = me.device(list{100 * r, 100 * r + 1, 100 * r + 2});
    EXPECT_EQ(comm.HcclAlltoAll(out, 1, type, all, 1, type, me.comm, me.stream), 0);
    EXPECT_EQ(me.host<std::int64_t>(all, 3), (list{r, 100 + r, 200 + r}));

    // Rank r sends (r + k) % 3 elements to rank k, with room between the parts.
    std::vector<std::uint64_t> in_counts, in_offsets, out_counts, out_offsets;
    list sent(9, -1), expected(9, -2);
    for (int k = 0; k < 3; ++k) {
      const auto n = static_cast<std::uint64_t>((r + k) % 3);
      in_counts.push_back(n);
      out_counts.push_back(n);
      in_offsets.push_back(static_cast<std::uint64_t>(3 * k));
      out_offsets.push_back(static_cast<std::uint64_t>(6 - 3 * k));
      for (std::uint64_t i = 0; i < n; ++i) {
        sent[in_offsets.back() + i] = 100 * r + 10 * k + static_cast<int>(i);
        expected[out_offsets.back() + i] = 100 * k + 10 * r + static_cast<int>(i);
      }
    }
    void* from = me.device(sent);
    void* to = me.device(list(9, -2));
    EXPECT_EQ(comm.HcclAlltoAllV(from, in_counts.data(), in_offsets.data(), type, to, out_counts.data(),
                                 out_offsets.data(), type, me.comm, me.stream),
              0);
    EXPECT_EQ(me.host<std::int64_t>(to, 9), expected);
    EXPECT_EQ(comm.HcclBarrier(me.comm, me.stream), 0);
    EXPECT_EQ(me.wait(), 0);
  });
}

TEST(collectives, messages) {
  in_ranks(3, [](rank_view& me) {
    const auto& comm = api().comm;
    const auto next = static_cast<std::uint32_t>((me.rank + 1) % 3),
               before = static_cast<std::uint32_t>((me.rank + 2) % 3);
    void* mine = me.device(std::vector<int>{me.rank, 5});
    void* got = me.device(std::vector<int>(2));
    hccl_item items[] = {{1, got, 2, hccl_type::int32, before}, {0, mine, 2, hccl_type::int32, next}};
    EXPECT_EQ(comm.HcclBatchSendRecv(items, 2, me.comm, me.stream), 0);
    EXPECT_EQ(me.host<int>(got, 2), (std::vector<int>{static_cast<int>(before), 5}));
    // 0 -> 1 -> 2
    if (me.rank > 0) {
      EXPECT_EQ(comm.HcclRecv(got, 2, hccl_type::int32, before, me.comm, me.stream), 0);
    }
    if (me.rank < 2) {
      EXPECT_EQ(comm.HcclSend(me.rank == 0 ? mine : got, 2, hccl_type::int32, next, me.comm, me.stream), 0);
    }
    EXPECT_EQ(me.host<int>(me.rank == 0 ? mine : got, 2), (std::vector<int>{0, 5}));
  });
}

TEST(collectives, arguments_that_hccl_refuses) {
  in_ranks(2, [](rank_view& me) {
    const auto& comm = api().comm;
    void* p = me.device(std::vector<double>(4));
    const auto reduce = [&](hccl_type type, hccl_reduction op) {
      return comm.HcclAllReduce(p, p, 1, type, op, me.comm, me.stream);
    };
    EXPECT_EQ(reduce(hccl_type::float64, hccl_reduction::sum), 5);
    EXPECT_EQ(reduce(hccl_type::uint32, hccl_reduction::sum), 5);
    EXPECT_EQ(reduce(hccl_type::bfloat16, hccl_reduction::product), 5);
    EXPECT_EQ(reduce(hccl_type::int16, hccl_reduction::product), 5);
    EXPECT_EQ(comm.HcclAllReduce(nullptr, p, 1, hccl_type::float32, hccl_reduction::sum, me.comm, me.stream), 2);
    EXPECT_EQ(comm.HcclAllReduce(p, p, 1, hccl_type::float32, hccl_reduction::sum, nullptr, me.stream), 2);
    EXPECT_EQ(comm.HcclBroadcast(p, 1, hccl_type::float32, 2, me.comm, me.stream), 1);
    EXPECT_EQ(comm.HcclBarrier(&p, me.stream), 1);
    EXPECT_EQ(api().rt.aclrtSetDevice(1 - me.rank), 0);
    EXPECT_EQ(comm.HcclBarrier(me.comm, me.stream), 15);
    EXPECT_THAT(api().rt.aclGetRecentErrMsg(), HasSubstr("belongs to device"));
    EXPECT_EQ(api().rt.aclrtResetDevice(1 - me.rank), 0);
    EXPECT_EQ(api().rt.aclrtSetDevice(me.rank), 0);
    EXPECT_EQ(api().rt.aclrtResetDevice(me.rank), 0);
    EXPECT_EQ(comm.HcclBroadcast(p, 4, hccl_type::float64, 1, me.comm, me.stream), 0);  // moved it can be
    EXPECT_EQ(me.wait(), 0);
    std::uint32_t size = 0, rank = 7;
    EXPECT_EQ(comm.HcclGetRankSize(me.comm, &size), 0);
    EXPECT_EQ(comm.HcclGetRankId(me.comm, &rank), 0);
    EXPECT_EQ(size, 2U);
    EXPECT_EQ(rank, static_cast<std::uint32_t>(me.rank));
    EXPECT_STREQ(comm.HcclGetErrorString(9), "timeout");
  });
}

/// The asynchronous error of all three ranks, and its text, when rank r does f(r), which returns what its last call
/// did: 0, and the stream fails, or that error, if the others had failed before this rank came.
std::vector<int> failures(const std::function<int(rank_view&)>& f, const char* why, int milliseconds = 20000) {
  emulated::settings s;
  s.collective_milliseconds = milliseconds;
  std::vector<int> codes(3);
  in_ranks(
      3,
      [&](rank_view& me) {
        const int called = f(me);
        const int waited = me.wait();
        if (me.comm == nullptr) return;
        EXPECT_TRUE(called != 0 || waited != 0);
        int code = 0;
        EXPECT_EQ(api().comm.HcclGetCommAsyncError(me.comm, &code), 0);
        EXPECT_TRUE(called == 0 || called == code) << called;
        EXPECT_THAT(api().rt.aclGetRecentErrMsg(), HasSubstr(why));
        codes[static_cast<size_t>(me.rank)] = code;
        EXPECT_EQ(api().comm.HcclBarrier(me.comm, me.stream), code);  // and it stays so
      },
      s);
  return codes;
}

TEST(collectives, ranks_that_disagree_end_the_work_of_all) {
  const auto reduce = [](rank_view& me, std::uint64_t count, hccl_type type = hccl_type::float32,
                         hccl_reduction op = hccl_reduction::sum) {
    void* p = me.device(std::vector<float>(8));
    return api().comm.HcclAllReduce(p, p, count, type, op, me.comm, me.stream);
  };
  EXPECT_THAT(
      failures([&](rank_view& me) { return reduce(me, me.rank == 2 ? 5 : 4); }, "rank 2 in HcclAllReduce(count 5"),
      ElementsAre(1, 1, 1));
  EXPECT_THAT(
      failures([&](rank_view& me) { return reduce(me, 4, me.rank == 1 ? hccl_type::int32 : hccl_type::float32); },
               "ranks disagree"),
      ElementsAre(1, 1, 1));
  EXPECT_THAT(
      failures([&](rank_view& me) { return me.rank == 1 ? api().comm.HcclBarrier(me.comm, me.stream) : reduce(me, 4); },
               "rank 1 in HcclBarrier"),
      ElementsAre(1, 1, 1));
}

TEST(collectives, a_rank_that_does_not_come_is_not_waited_for_for_ever) {
  EXPECT_THAT(failures(
                  [](rank_view& me) {
                    int code = 0;
                    while (me.rank == 2 && code == 0) {
                      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // the others need the group's lock
                      api().comm.HcclGetCommAsyncError(me.comm, &code);
                    }
                    const int called = api().comm.HcclBarrier(me.comm, me.stream);
                    EXPECT_EQ(called, code);
                    if (me.rank == 2) {  // nothing of it failed
                      api().comm.HcclCommDestroy(me.comm);
                      me.comm = nullptr;
                    }
                    return called;
                  },
                  "3000 ms in vain for rank 2", 3000),
              ElementsAre(9, 9, 0));
  EXPECT_THAT(failures(
                  [](rank_view& me) {
                    if (me.rank != 1) return api().comm.HcclBarrier(me.comm, me.stream);
                    EXPECT_EQ(api().comm.HcclCommDestroy(me.comm), 0);
                    me.comm = nullptr;
                    return 0;
                  },
                  "rank 1, which has destroyed its communicator"),
              ElementsAre(21, 0, 21));
}

TEST(collectives, two_ranks_that_both_send_first_are_told) {
  EXPECT_THAT(failures(
                  [](rank_view& me) {
                    void* p = me.device(std::vector<int>(1));
                    const auto other = static_cast<std::uint32_t>(me.rank == 0 ? 1 : 0);
                    const int sent = api().comm.HcclSend(p, 1, hccl_type::int32, other, me.comm, me.stream);
                    if (me.rank == 2 || sent != 0) return sent;
                    return api().comm.HcclRecv(p, 1, hccl_type::int32, other, me.comm, me.stream);
                  },
                  "ms in vain for rank", 2000),
              ElementsAre(9, 9, 9));
}

TEST(collectives, lists_that_do_not_match_end_the_work_of_all) {
  EXPECT_THAT(failures(
                  [](rank_view& me) {
                    void* p = me.device(std::vector<std::int32_t>(8));
                    const std::uint64_t offsets[] = {0, 2, 4}, sent[] = {1, 1, 1};
                    const std::uint64_t expected[] = {1, me.rank == 2 ? 2u : 1u, 1};
                    return api().comm.HcclAlltoAllV(p, sent, offsets, hccl_type::int32, p, expected, offsets,
                                                    hccl_type::int32, me.comm, me.stream);
                  },
                  "rank 1 sends 1 elements, rank 2 expects 2"),
              ElementsAre(1, 1, 1));
}

/// Calls sleeps(group), of rank 0, in another thread and wakes(group), of rank 1, here, most of the time while the
/// first one waits; then the group fails, most of the time before that one has woken. wakes() returns only when rank 0
/// has come.
template <class Sleeps, class Wakes>
void fail_before_it_wakes(Sleeps sleeps, Wakes wakes) {
  for (int turn = 0; turn < 50; ++turn) {
    emulated::rank_group group(2, std::chrono::seconds(20));
    std::thread sleeper([&] { sleeps(group); });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    wakes(group);
    group.issued(1);
    group.leave(1);
    sleeper.join();
    EXPECT_EQ(group.failed(), emulated::hccl_errors::remote);
    EXPECT_EQ(group.join(2, 1, 1), emulated::hccl_errors::remote);
  }
}

// What fails the moment a group or a collective is complete is no failure of those whose threads have not yet woken.
TEST(collectives, what_was_complete_has_succeeded) {
  using emulated::rank_group;
  fail_before_it_wakes([](rank_group& g) { EXPECT_EQ(g.join(2, 0, 0), 0); },
                       [](rank_group& g) { EXPECT_EQ(g.join(2, 1, 1), 0); });
  fail_before_it_wakes([](rank_group& g) { EXPECT_NO_THROW(g.meet(0, 0, {"gather"}, {}, {})); },
                       [](rank_group& g) { EXPECT_NO_THROW(g.meet(1, 0, {"gather"}, {}, {})); });
  fail_before_it_wakes([](rank_group& g) { EXPECT_NO_THROW(g.taken(0, 1, *g.post(0, 1, {{"send"}, {}, false}))); },
                       [](rank_group& g) { EXPECT_NO_THROW(g.receive(0, 1, {"receive"})); });
}

/// Two devices, the first of which is current, on which ranks wait for each other so long.
void start_machine(int milliseconds) {
  emulated::settings s;
  s.devices = 2;
  s.collective_milliseconds = milliseconds;
  emulated::configure(s);
  ASSERT_EQ(api().rt.aclInit(nullptr), 0);
  ASSERT_EQ(api().rt.aclrtSetDevice(0), 0);
}

TEST(collectives, a_group_whose_ranks_do_not_come_does_not_form) {
  hccl_root_info root;
  const calls& c = api();
  EXPECT_EQ(c.comm.HcclGetRootInfo(&root), 15);
  start_machine(20);
  HcclComm comm = nullptr;
  EXPECT_EQ(c.comm.HcclGetRootInfo(nullptr), 2);
  EXPECT_EQ(c.comm.HcclGetRootInfo(&root), 0);
  EXPECT_EQ(c.comm.HcclCommInitRootInfo(2, &root, 2, &comm), 1);
  EXPECT_EQ(c.comm.HcclCommInitRootInfo(2, &root, 0, &comm), 9);
  EXPECT_THAT(c.rt.aclGetRecentErrMsg(), HasSubstr("rank 1 did not join"));
  EXPECT_EQ(c.rt.aclrtResetDevice(0), 0);
  EXPECT_EQ(c.rt.aclFinalize(), 0);
}

TEST(collectives, groups_form_of_the_right_ranks_only) {
  start_machine(20000);
  hccl_root_info root;
  const calls& c = api();
  HcclComm comm = nullptr;
  EXPECT_EQ(c.comm.HcclGetRootInfo(&root), 0);
  std::thread same_device([&] {
    EXPECT_EQ(c.rt.aclrtSetDevice(0), 0);
    HcclComm other = nullptr;
    EXPECT_EQ(c.comm.HcclCommInitRootInfo(2, &root, 1, &other), 1);
    EXPECT_EQ(c.rt.aclrtResetDevice(0), 0);
  });
  EXPECT_EQ(c.comm.HcclCommInitRootInfo(2, &root, 0, &comm), 1);
  same_device.join();
  root.internal[0] = 'x';
  EXPECT_EQ(c.comm.HcclCommInitRootInfo(1, &root, 0, &comm), 1);

  std::int32_t devices[] = {1, 0};
  HcclComm both[2] = {};
  EXPECT_EQ(c.comm.HcclCommInitAll(2, devices, both), 0);
  EXPECT_EQ(c.comm.HcclCommDestroy(both[1]), 0);
  EXPECT_EQ(c.comm.HcclCommDestroy(both[1]), 1);
  EXPECT_EQ(c.rt.aclFinalize(), 0);
  EXPECT_THAT(emulated::last_report(), HasSubstr("HcclComm"));
  EXPECT_EQ(c.comm.HcclCommDestroy(both[0]), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
