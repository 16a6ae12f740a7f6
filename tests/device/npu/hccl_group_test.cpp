// NPUs that exchange their memory by HCCL, on the emulated machine: the same bytes and sums as through the host.
#include "rlcore/device/npu/hccl_group.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "device/npu/counted_calls.hpp"
#include "device/npu/emulated_npu.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/emulator/collectives.hpp"
#include "rlcore/emulator/runtime.hpp"
#include "rlcore/nn/parallel/context_wire.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/parallel/device_memory.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::parallel;
using namespace std::chrono_literals;
using rlcore_test::floats;
using testing::HasSubstr;
using sizes = std::vector<std::size_t>;

const ascend::calls& machine(int devices, int milliseconds = 20000) {
  const ascend::calls& calls = rlcore_test::emulated_calls();
  ascend::emulated::settings s;
  s.devices = devices;
  s.collective_milliseconds = milliseconds;
  ascend::emulated::configure(s);
  return calls;
}

using rank_body = std::function<void(any_communicator&, npu&)>;

/// f on each of `ranks` threads with an NPU of its own; `linked`: by HCCL, otherwise through the host.
void on_npus(const ascend::calls& calls, int ranks, bool linked, const rank_body& f,
             std::chrono::milliseconds deadline = 20s) {
  run_ranks(ranks, [&](thread_rank& self) {
    any_communicator_of<thread_rank&> c(self);
    npu_settings settings;
    settings.device = c.rank(), settings.exact_memory = true;
    npu device(rlcore_test::table_provider{&calls}, settings);
    ASSERT_TRUE(device.forms_groups());
    std::optional<device_links> links;
    if (linked) links.emplace(c, device, deadline);
    EXPECT_EQ(parallel::linked(device, c), linked);
    f(c, device);
  });
  EXPECT_EQ(ascend::emulated::last_report(), "");
}

/// Numbers of very different size: almost every order of summation gives other bits.
floats numbers(std::size_t rank, std::size_t n) {
  floats v(n);
  const random_key key = random_key{11}.child(static_cast<std::uint32_t>(rank));
  for (std::size_t i = 0; i < n; ++i) {
    const auto at = static_cast<std::uint32_t>(i);
    v[i] = static_cast<float>(std::ldexp(key.normal(at, 0), static_cast<int>(key.below(24, at, 1)) - 12));
  }
  return v;
}

class hccl_sizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, hccl_sizes, testing::Values(1, 2, 3, 4));

TEST_P(hccl_sizes, gather_and_exchange_the_right_values) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  for (const bool linked : {true, false})
    for (const bool even : {true, false})
      on_npus(machine(GetParam()), GetParam(), linked, [&](any_communicator& c, npu& device) {
        const auto self = static_cast<std::size_t>(c.rank());
        sizes counts(ranks, 5);
        if (!even)
          for (std::size_t r = 0; r < ranks; ++r) counts[r] = r == 1 ? 0 : 2 * r + 3;
        floats expected, host;
        for (std::size_t r = 0; r < ranks; ++r)
          for (const float x : numbers(r, counts[r])) {
            expected.push_back(x);
            host.push_back(r == self ? x : NAN);
          }
        auto values = rlcore_test::put(device, host);
        floats copy;
        gather_in_place(device, c, values.data(), counts, copy);
        EXPECT_EQ(values.back(), expected);

        if (!linked) return;
        // Rank r sends (r + to) % 4 values to rank `to`, the number of both in them.
        sizes out(ranks), in(ranks);
        floats sent, wanted;
        for (std::size_t r = 0; r < ranks; ++r) {
          out[r] = (self + r) % 4, in[r] = (r + self) % 4;
          sent.insert(sent.end(), out[r], static_cast<float>(10 * self + r));
          wanted.insert(wanted.end(), in[r], static_cast<float>(10 * r + self));
        }
        auto from = rlcore_test::put(device, sent);
        rlcore_test::memory<float, npu> to(device, wanted.size());
        c.device_all_to_all(from.data(), parallel::bytes_of<float>(out), to.data(), parallel::bytes_of<float>(in));
        EXPECT_EQ(to.back(), wanted);
      });
}

TEST_P(hccl_sizes, sums_have_the_bits_of_the_host) {
  constexpr std::size_t n = 257;
  const auto ranks = static_cast<std::size_t>(GetParam());
  on_npus(machine(GetParam()), GetParam(), true, [&](any_communicator& c, npu& device) {
    const auto check = [&](auto order) {
      const floats mine = numbers(static_cast<std::size_t>(c.rank()), n);
      floats expected = mine;
      all_reduce_sum(order, c, std::span(expected));
      auto x = rlcore_test::put(device, mine);
      all_reduce_sum(order, device, c, x.data(), n);
      EXPECT_EQ(x.back(), expected);

      sizes counts(ranks, 3);
      counts[0] = n - 3 * (ranks - 1);
      floats part(counts[static_cast<std::size_t>(c.rank())]);
      reduction_scratch<float> scratch;
      reduce_scatter_sum(order, c, std::span(mine), std::span<const std::size_t>(counts), std::span(part), scratch);
      auto in = rlcore_test::put(device, mine);
      rlcore_test::memory<float, npu> out(device, part.size());
      reduce_scatter_sum(order, device, c, in.data(), counts, out.data());
      EXPECT_EQ(out.back(), part);
    };
    check(tree{});
    check(ranked{});
  });
}

/// Each rank's shard of the sum, and the bytes that the ranks sent.
std::pair<std::vector<floats>, std::uint64_t> sums_of(int ranks, bool linked, const parallel_settings& s) {
  constexpr std::size_t size = 20000;
  std::vector<floats> shards(static_cast<std::size_t>(ranks));
  std::atomic<std::uint64_t> bytes = 0;
  const std::vector<bool> present{true, true, false, true, true, false, true, true};
  on_npus(machine(ranks), ranks, linked, [&](any_communicator& c, npu& device) {
    world w(c, s);
    gradient_sums<npu> sums(device, w, {7000, 9000, 9500, size});
    const auto self = static_cast<std::size_t>(w.sums().rank());
    sums.begin(present);
    buffer<float, npu> own(device, size);
    floats running(size, 0.0F);
    for (std::size_t round = 0; round < sums.schedule().rounds(); ++round) {
      const std::size_t n = sums.schedule().number(self, round);
      if (n == leaf_schedule::none || !sums.schedule().present(n, present)) {
        sums.skip(round);
        continue;
      }
      const floats x = numbers(n, size);
      if (own.size() == 0) own = buffer<float, npu>(device, size);
      for (std::size_t i = 0; i < size; ++i) running[i] += x[i];
      own.upload(sums.by_leaf() ? x : running);
      if (sums.by_leaf()) sums.take(round, own);
    }
    if (!sums.by_leaf()) sums.take(0, own);
    const float* shard = sums.finish();
    shards[self].resize(sums.shard_size());
    device.download(shards[self].data(), shard, sums.shard_size() * sizeof(float));
    bytes += w.shards().counters().total().bytes + w.replicas().counters().total().bytes;
  });
  return {shards, bytes.load()};
}

TEST(hccl_group, gradients_have_the_bits_of_sums_through_the_host) {
  struct arrangement {
    int ranks, shards;
  };
  for (const auto kind : {reduction_kind::tree, reduction_kind::ranked, reduction_kind::exact})
    for (int zero = 0; zero < 4; ++zero)
      for (const auto [ranks, of] : {arrangement{2, 0}, arrangement{3, 0}, arrangement{4, 0}, arrangement{4, 2}}) {
        parallel_settings s;
        s.reduction = kind, s.zero = zero, s.leaves = 8, s.shard_ranks = of;
        const auto here = sums_of(ranks, true, s), there = sums_of(ranks, false, s);
        EXPECT_EQ(here.first, there.first) << zero << " of " << ranks << ", shards " << of;
        EXPECT_EQ(here.second, there.second) << zero << " of " << ranks << ", shards " << of;
      }
}

/// From pieces of a flat vector to columns.
TEST(hccl_group, move_weights_to_another_layout) {
  for (const std::size_t bucket : {std::size_t{3}, std::size_t{1000}})
    on_npus(machine(3), 3, true, [&](any_communicator& c, npu& device) {
      constexpr std::int64_t rows = 6, columns = 10;
      piece_layout from, to;
      for (std::int64_t r = 0; r < 3; ++r) {
        const auto part = [&](std::int64_t n, std::int64_t all) { return n * all / 3; };
        from.push_back({{.tensor = "w",
                         .shape = {rows, columns},
                         .start = {0, 0},
                         .extent = {rows, columns},
                         .first = static_cast<std::size_t>(part(r, rows * columns)),
                         .last = static_cast<std::size_t>(part(r + 1, rows * columns))}});
        const std::int64_t first = part(r, columns), width = part(r + 1, columns) - first;
        to.push_back({{.tensor = "w",
                       .shape = {rows, columns},
                       .start = {0, first},
                       .extent = {rows, width},
                       .first = 0,
                       .last = static_cast<std::size_t>(rows * width)}});
      }
      const auto self = static_cast<std::size_t>(c.rank());
      const shard_piece &mine = from[self][0], &wanted = to[self][0];
      floats held, expected;
      for (std::size_t i = mine.first; i < mine.last; ++i) held.push_back(static_cast<float>(i));
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t k = 0; k < wanted.extent[1]; ++k)
          expected.push_back(static_cast<float>(i * columns + wanted.start[1] + k));
      auto source = rlcore_test::put(device, held);
      rlcore_test::memory<float, npu> target(device, expected.size());
      reshard_plan(from, to, self)
          .run_on_devices(
              device, c, bucket, [&](std::size_t, std::size_t first) { return source.data() + first; },
              [&](std::size_t, std::size_t first) { return target.data() + first; });
      EXPECT_EQ(target.back(), expected);
    });
}

TEST(hccl_group, no_value_passes_through_the_host) {
  const ascend::calls& calls = machine(2);
  rlcore_test::counted_calls counted(calls);
  int uploads = 0, downloads = 0;
  on_npus(counted.table(), 2, true, [&](any_communicator& c, npu& device) {
    const sizes counts{1000, 24};
    rlcore_test::memory<float, npu> x(device, 1024), y(device, counts[static_cast<std::size_t>(c.rank())]);
    device.fill_zero(x.data(), 4096);
    floats copy;
    all_reduce_sum(tree{}, device, c, x.data(), 1024);
    c.barrier();
    if (c.rank() == 0) counted.clear();
    c.barrier();
    all_reduce_sum(tree{}, device, c, x.data(), 1024);
    gather_in_place(device, c, x.data(), counts, copy);
    reduce_scatter_sum(ranked{}, device, c, x.data(), counts, y.data());
    nn::context_wire<npu> wire(device, c);
    const std::vector<extent_t> rows{1000, 24};
    wire.reduce_scatter(x.data(), y.data(), rows, 1);
    wire.all_gather(y.data(), x.data(), rows, 1);
    c.barrier();
    if (c.rank() == 0) uploads = counted.uploads, downloads = counted.downloads;
    c.barrier();
  });
  EXPECT_EQ(uploads, 0);
  EXPECT_EQ(downloads, 0);
}

/// The message with which the run of three ranks ends; `others` ranks see a communication_error.
std::string message(const std::function<void(any_communicator&, npu&)>& f, int others = 3,
                    std::chrono::milliseconds deadline = 20s, int milliseconds = 20000) {
  std::atomic<int> seen{0};
  std::string what = "no exception";
  try {
    on_npus(
        machine(3, milliseconds), 3, true,
        [&](any_communicator& c, npu& device) {
          try {
            f(c, device);
          } catch (const communication_error& e) {
            ++seen;
            EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos);
            throw;
          }
        },
        deadline);
  } catch (const std::exception& e) {
    what = e.what();
  }
  EXPECT_EQ(seen, others);
  EXPECT_EQ(ascend::emulated::last_report(), "");
  return what;
}

void gather(any_communicator& c, npu& device, std::size_t n) {
  rlcore_test::memory<float, npu> x(device, 3 * n);
  device.fill_zero(x.data(), 12 * n);
  floats copy;
  gather_in_place(device, c, x.data(), sizes(3, n), copy);
}

TEST(hccl_group, ranks_that_disagree) {
  EXPECT_THAT(message([](any_communicator& c, npu& d) { gather(c, d, c.rank() == 1 ? 2 : 1); }),
              HasSubstr("ranks disagree"));
}

TEST(hccl_group, a_rank_that_fails_ends_the_others_with_its_own_message) {
  EXPECT_EQ(message(
                [](any_communicator& c, npu& d) {
                  gather(c, d, 1);
                  if (c.rank() == 1) throw std::runtime_error("out of luck");
                  gather(c, d, 1);
                },
                2),
            "out of luck");
}

TEST(hccl_group, a_rank_that_does_not_come_is_waited_for_until_the_deadline) {
  std::atomic<int> failed{0};
  EXPECT_THAT(message(
                  [&](any_communicator& c, npu& d) {
                    try {
                      gather(c, d, 1);
                      while (c.rank() == 2 && failed < 2) std::this_thread::sleep_for(1ms);
                      gather(c, d, 1);
                    } catch (...) {
                      ++failed;
                      throw;
                    }
                  },
                  3, 2s, 3000),
              HasSubstr("in vain for the other ranks"));
}

TEST(hccl_group, refuses_what_does_not_form_one) {
  const ascend::calls& calls = machine(2, 20);
  npu device(rlcore_test::table_provider{&calls});
  const std::vector<std::byte> root = device.group_root();
  try {
    (void)device.join_group({root, 0, 2, 1s});
    FAIL();
  } catch (const communication_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rank 0 cannot join"));
    EXPECT_THAT(e.what(), HasSubstr("rank 1 did not join"));
    EXPECT_THAT(e.what(), HasSubstr("rlcore.npu.hccl=False"));
  }
  EXPECT_THROW((void)device.join_group({root, 2, 2, 1s}), std::invalid_argument);
  EXPECT_THROW((void)device.join_group({std::span(root).first(8), 0, 2, 1s}), std::invalid_argument);

  ascend::calls without = calls;
  without.comm.HcclAlltoAllV = nullptr;
  npu alone(rlcore_test::table_provider{&without});
  EXPECT_FALSE(alone.forms_groups());
  EXPECT_THROW((void)alone.group_root(), ascend::capability_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
