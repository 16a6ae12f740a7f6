// The queue on the emulated machine: real asynchrony, real failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/npu/queue.hpp"
#include "rlcore/emulator/operators.hpp"
#include "rlcore/emulator/runtime.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using ascend::queue;
using testing::HasSubstr;
using testing::Not;

/// The emulated machine with the operators of these tests: a table of all of them takes minutes to compile.
const ascend::calls& emulated_table() {
  namespace e = ascend::emulated;
  static const ascend::calls table = [] {
    ascend::calls t;
    e::fill(t.rt);
    e::fill(t.nn);
    const auto put = [](auto& op, auto* plan, auto* run) { op.plan = plan, op.run = run; };
    put(t.op.aclnnMuls, &e::two_phases<e::names::aclnnMuls, &e::plans::aclnnMuls>::plan,
        &e::two_phases<e::names::aclnnMuls, &e::plans::aclnnMuls>::run);
    put(t.op.aclnnAdds, &e::two_phases<e::names::aclnnAdds, &e::plans::aclnnAdds>::plan,
        &e::two_phases<e::names::aclnnAdds, &e::plans::aclnnAdds>::run);
    put(t.op.aclnnExp, &e::two_phases<e::names::aclnnExp, &e::plans::aclnnExp>::plan,
        &e::two_phases<e::names::aclnnExp, &e::plans::aclnnExp>::run);
    put(t.op.aclnnMatmul, &e::two_phases<e::names::aclnnMatmul, &e::plans::aclnnMatmul>::plan,
        &e::two_phases<e::names::aclnnMatmul, &e::plans::aclnnMatmul>::run);
    put(t.op.aclnnIndexSelect, &e::two_phases<e::names::aclnnIndexSelect, &e::plans::aclnnIndexSelect>::plan,
        &e::two_phases<e::names::aclnnIndexSelect, &e::plans::aclnnIndexSelect>::run);
    put(t.op.aclnnInplaceZero, &e::two_phases<e::names::aclnnInplaceZero, &e::plans::aclnnInplaceZero>::plan,
        &e::two_phases<e::names::aclnnInplaceZero, &e::plans::aclnnInplaceZero>::run);
    return t;
  }();
  return table;
}

/// A fresh machine whose tasks dawdle, and a queue on it; in the end nothing may be left on the machine.
struct queue_emulated : testing::Test {
  explicit queue_emulated(int delay = 50) {
    ascend::emulated::settings s;
    s.memory_bytes = std::size_t{256} << 20;
    s.delay_microseconds = delay;
    ascend::emulated::configure(s);
  }
  ~queue_emulated() override {
    q.reset();
    EXPECT_EQ(ascend::emulated::last_report(), "");
  }
  std::shared_ptr<ascend::session> session() { return ascend::session::open(emulated_table(), "emulator"); }
  queue& open(ascend::queue_settings settings = {}, int device = 0) {
    q.reset();
    q.emplace(session(), device, settings);
    return *q;
  }
  const ascend::operator_calls& op() const { return emulated_table().op; }

  std::optional<queue> q;
};

std::vector<float> counting(std::size_t n, float first = 0) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = first + static_cast<float>(i % 1000);
  return v;
}

/// y = a x + b in two operators with a temporary between them.
void affine(queue& q, const ascend::operator_calls& op, float* y, const float* x, std::int64_t n, float a, float b) {
  const auto product = q.take<float>(n);
  q.run(op.aclnnMuls, q.tensor(x, {n}), q.scalar(a), q.tensor(product.data(), {n}));
  q.run(op.aclnnAdds, q.tensor(product.data(), {n}), q.scalar(b), q.scalar(1.0f), q.tensor(y, {n}));
}

TEST_F(queue_emulated, memory_in_flight_is_not_given_away) {
  queue& on = open();
  constexpr std::int64_t n = 700;
  std::vector<float> host(n), back(n);
  std::vector<ascend::scratch<float>> results;
  for (int i = 0; i < 30; ++i) {
    host = counting(n, static_cast<float>(i));
    const auto x = on.take<float>(n);  // goes back to the cache while the operators wait for their turn
    results.push_back(on.take<float>(n));
    on.upload(x.data(), host.data(), n * 4);
    host.assign(n, -1.0f);  // the caller may
    affine(on, op(), results.back().data(), x.data(), n, 2, static_cast<float>(i));
  }
  for (int i = 0; i < 30; ++i) {
    on.download(back.data(), results[static_cast<std::size_t>(i)].data(), n * 4);
    host = counting(n, static_cast<float>(i));
    for (std::size_t k = 0; k < back.size(); ++k) ASSERT_EQ(back[k], 2 * host[k] + static_cast<float>(i)) << i;
  }
  EXPECT_LE(on.memory().statistics().mallocs, 2u);
  results.clear();
}

TEST_F(queue_emulated, large_copies_pass_through_the_ring) {
  queue& on = open();
  const std::size_t n = (std::size_t{7} << 18) + 13;  // 7 MiB and some
  const std::vector<float> host = counting(n);
  std::vector<float> back(n);
  const auto x = on.take<float>(static_cast<extent_t>(n)), y = on.take<float>(static_cast<extent_t>(n));
  on.upload(x.data(), host.data(), n * 4);
  on.copy(y.data(), x.data(), n * 4);
  on.zero(x.data(), n * 4);
  on.download(back.data(), y.data(), n * 4);
  EXPECT_EQ(back, host);
  on.download(back.data(), x.data(), n * 4);
  EXPECT_EQ(back, std::vector<float>(n));
}

TEST_F(queue_emulated, views_may_start_anywhere) {
  queue& on = open();
  const std::vector<float> host = counting(105);
  std::vector<float> back(105);
  const auto x = on.take<float>(105), y = on.take<float>(105);
  on.upload(x.data(), host.data(), 420);
  on.zero(y.data(), 420);
  // columns 2 .. 4 of 15 rows of 7, into the other's columns 3 .. 5
  on.run(op().aclnnMuls, on.tensor(x.data() + 2, {15, 3}, {7, 1}), on.scalar(3.0f),
         on.tensor(y.data() + 3, {15, 3}, {7, 1}));
  on.download(back.data(), y.data(), 420);
  for (std::size_t i = 0; i < 105; ++i) EXPECT_EQ(back[i], i % 7 >= 3 && i % 7 <= 5 ? 3 * host[i - 1] : 0.0f) << i;
}

/// Rows of x by number; the second one is not there.
void select_beyond(queue& q, const ascend::operator_calls& op, float* y, const float* x, std::int64_t* ids) {
  const std::int64_t numbers[] = {1, 77};
  q.upload(ids, numbers, sizeof numbers);
  q.run(op.aclnnIndexSelect, q.tensor(x, {4, 8}), std::int64_t{0}, q.tensor(ids, {2}), q.tensor(y, {2, 8}));
}

TEST_F(queue_emulated, a_failure_comes_with_the_next_wait_and_the_names_before_it) {
  queue& on = open();
  std::vector<float> host(32);
  {
    const auto x = on.take<float>(32), y = on.take<float>(32);
    const auto ids = on.take<std::int64_t>(2);
    on.zero(x.data(), 128);
    on.run(op().aclnnExp, on.tensor(x.data(), {32}), on.tensor(x.data(), {32}));
    on.wait();
    select_beyond(on, op(), y.data(), x.data(), ids.data());
    std::string text;
    try {
      affine(on, op(), y.data(), x.data(), 32, 1, 1);  // if the failure is quick, it is told here already
      on.wait();
      FAIL();
    } catch (const ascend::npu_error& e) {
      EXPECT_EQ(e.code, 507015);
      text = e.what();
    }
    EXPECT_THAT(text, HasSubstr("507015 (exception in an AI core)"));
    EXPECT_THAT(text, HasSubstr("aclnnIndexSelect"));
    EXPECT_THAT(text, HasSubstr("upload"));
    EXPECT_THAT(text, Not(HasSubstr("aclnnExp"))) << "it was waited for";
    EXPECT_THAT(text, Not(HasSubstr("\n")));
    // The stream has stopped: nothing that follows pretends to have worked.
    EXPECT_THROW(on.download(host.data(), y.data(), 128), ascend::npu_error);
    EXPECT_THROW(on.wait(), ascend::npu_error);
    EXPECT_THROW(on.upload(x.data(), host.data(), 128), ascend::npu_error);
  }
  open({}, 1).wait();  // another device is not concerned
}

TEST_F(queue_emulated, a_stream_that_has_stopped_tells_the_first_failure) {
  queue& on = open();
  const auto x = on.take<float>(32), y = on.take<float>(32);
  const auto ids = on.take<std::int64_t>(2);
  on.zero(x.data(), 128);
  select_beyond(on, op(), y.data(), x.data(), ids.data());
  while (!on.stream().idle()) std::this_thread::yield();
  for (const auto& what : {std::string("aclnnMuls"), std::string("aclrtMemsetAsync")}) {
    const std::string text = thrown_by([&] {
      if (what == "aclnnMuls") affine(on, op(), y.data(), x.data(), 32, 1, 1);
      on.zero(y.data(), 128);
    });
    EXPECT_THAT(text, HasSubstr("507015 (exception in an AI core)"));
    EXPECT_THAT(text, HasSubstr("latest first: aclnnIndexSelect, upload, zero; " + what + " was refused with "));
  }
}

TEST_F(queue_emulated, waiting_after_each_operation_finds_the_one_that_fails) {
  queue& on = open({true, true, false});
  const auto x = on.take<float>(32), y = on.take<float>(32);
  const auto ids = on.take<std::int64_t>(2);
  on.zero(x.data(), 128);
  try {
    select_beyond(on, op(), y.data(), x.data(), ids.data());
    FAIL();
  } catch (const ascend::npu_error& e) {
    EXPECT_EQ(e.call, "aclnnIndexSelect");
    EXPECT_THAT(e.what(), HasSubstr("index 77 of 4"));
    EXPECT_THAT(e.what(), HasSubstr("; the operation is aclnnIndexSelect; arguments: float32[4,8], 0, int64[2], "
                                    "float32[2,8]"));
  }
}

TEST_F(queue_emulated, what_the_host_can_check_is_told_at_once) {
  queue& on = open();
  const auto x = on.take<float>(12);
  const std::string text = thrown_by([&] {
    on.run(op().aclnnMatmul, on.tensor(x.data(), {2, 3}), on.tensor(x.data(), {2, 3}), on.tensor(x.data(), {2, 2}),
           ascend::cube_math::keep);
  });
  EXPECT_THAT(text, HasSubstr("aclnnMatmulGetWorkspaceSize returned 161002 (invalid argument of an operator): "));
  EXPECT_THAT(text, HasSubstr("; arguments: float32[2,3], float32[2,3], float32[2,2], 0"));
  on.wait();
}

TEST_F(queue_emulated, exact_memory_shows_accesses_beyond_the_end) {
  const auto overrun = [&](bool exact) {
    queue& on = open({true, false, exact});
    const auto x = on.take<float>(1000);
    return thrown_by([&] {
      on.run(op().aclnnInplaceZero, on.tensor(x.data(), {1100}));
      on.wait();
    });
  };
  EXPECT_EQ(overrun(false), "nothing was thrown") << "the neighbour in the segment bears it";
  EXPECT_THAT(overrun(true), HasSubstr("507015"));
}

TEST_F(queue_emulated, one_queue_goes_on_after_another) {
  queue& producer = open();
  queue consumer(session(), 0);
  constexpr std::int64_t n = 4096;
  const std::vector<float> host = counting(n);
  std::vector<float> back(n);
  const auto x = producer.take<float>(n), y = consumer.take<float>(n);
  for (int i = 0; i < 20; ++i) {
    producer.zero(x.data(), n * 4);
    producer.upload(x.data(), host.data(), n * 4);
    affine(producer, op(), x.data(), x.data(), n, 1, static_cast<float>(i));
    consumer.after(producer);
    affine(consumer, op(), y.data(), x.data(), n, 2, 0);
    producer.after(consumer);
    producer.zero(x.data(), n * 4);
    consumer.download(back.data(), y.data(), n * 4);
    for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(back[k], 2 * (host[k] + static_cast<float>(i))) << i;
  }
}

TEST_F(queue_emulated, any_order_of_requests_on_two_queues_agrees_with_the_host) {
  for (const bool exact : {false, true}) {
    queue& first = open({true, false, exact});
    queue second(session(), 0, {true, false, exact});
    queue* const queues[] = {&first, &second};
    struct array {
      ascend::scratch<float> device;
      std::vector<float> host;
    };
    std::vector<array> arrays;
    random_key draws{exact ? 5u : 4u};
    std::uint32_t drawn = 0;
    const auto below = [&](std::size_t n) {
      return static_cast<std::size_t>(draws.below(static_cast<std::uint32_t>(n), 0, drawn++));
    };
    int last = 0;
    for (int step = 0; step < 250; ++step) {
      if (below(8) == 0) {  // whoever goes on does so behind what the other was asked for
        queues[1 - last]->after(*queues[last]);
        last = 1 - last;
      }
      queue& on = *queues[last];
      if (arrays.size() < 3 || (arrays.size() < 12 && below(4) == 0)) {
        const std::size_t n = 1 + below(60000);
        arrays.push_back({first.take<float>(static_cast<extent_t>(n)), counting(n, static_cast<float>(step))});
        if (last != 0) on.after(first);  // the block may be in use there
        on.upload(arrays.back().device.data(), arrays.back().host.data(), n * 4);
        continue;
      }
      array& a = arrays[below(arrays.size())];
      array& b = arrays[below(arrays.size())];
      const std::size_t n = std::min(a.host.size(), b.host.size());
      const auto rank = static_cast<std::int64_t>(n);
      switch (below(6)) {
        case 0:
          if (&a != &b) {
            on.copy(a.device.data(), b.device.data(), n * 4);
            std::copy_n(b.host.begin(), n, a.host.begin());
          }
          break;
        case 1:
          on.zero(a.device.data(), n * 4);
          std::fill_n(a.host.begin(), n, 0.0f);
          break;
        case 2:
          on.run(op().aclnnAdds, on.tensor(b.device.data(), {rank}), on.scalar(1.0f), on.scalar(1.0f),
                 on.tensor(a.device.data(), {rank}));
          for (std::size_t i = 0; i < n; ++i) a.host[i] = b.host[i] + 1;
          break;
        case 3: {
          std::vector<float> back(a.host.size());
          on.download(back.data(), a.device.data(), back.size() * 4);
          ASSERT_EQ(back, a.host) << step;
          break;
        }
        case 4:
          if (last == 0) arrays.erase(arrays.begin() + (&a - arrays.data()));  // in the order of its own queue
          break;
        default:
          a.host[below(a.host.size())] = 7;
          on.upload(a.device.data(), a.host.data(), a.host.size() * 4);
      }
    }
    first.after(second);
    for (array& a : arrays) {
      std::vector<float> back(a.host.size());
      first.download(back.data(), a.device.data(), back.size() * 4);
      EXPECT_EQ(back, a.host);
    }
    second.wait();
  }
}

TEST_F(queue_emulated, threads_have_queues_of_their_own) {
  queue& first = open();
  const auto work = [&](int device, float factor) {
    queue on(session(), device);
    constexpr std::int64_t n = 3000;
    const std::vector<float> host = counting(n);
    std::vector<float> back(n);
    for (int i = 0; i < 10; ++i) {
      const auto x = on.take<float>(n + i), y = on.take<float>(n + 7 * i);
      on.upload(x.data(), host.data(), n * 4);
      affine(on, op(), y.data(), x.data(), n, factor, 1);
      on.download(back.data(), y.data(), n * 4);
      for (std::size_t k = 0; k < n; ++k) ASSERT_EQ(back[k], factor * host[k] + 1);
    }
  };
  std::thread a(work, 0, 2.0f), b(work, 1, 3.0f);
  work(0, 4);
  a.join();
  b.join();
  first.wait();
}

}  // namespace
}  // namespace RLCORE_TEST_ID
