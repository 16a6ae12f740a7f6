#include "rlcore/exec/serial.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "rlcore/exec/threads.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::serial;
using rlcore::threads;

static_assert(rlcore::executor<serial> && rlcore::executor<threads>);
static_assert(!rlcore::executor<int>);
static_assert(std::is_empty_v<serial>);
static_assert(std::is_nothrow_move_constructible_v<threads> && !std::is_copy_constructible_v<threads>);

double value(std::size_t i) { return std::sin(static_cast<double>(i)) / static_cast<double>(i + 1); }

template <class E>
std::vector<double> run(const E& e, std::size_t count) {
  std::vector<double> out(count, -1);
  e.for_each(count, [&](std::size_t i) { out[i] = value(i); });
  return out;
}

class thread_counts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(threads, thread_counts, testing::Values(1, 2, 3, 5, 16));

TEST_P(thread_counts, give_the_bits_of_the_loop) {
  const threads e(GetParam());
  EXPECT_EQ(e.concurrency(), static_cast<std::size_t>(GetParam()));
  for (const std::size_t count : std::vector<std::size_t>{0, 1, 2, 3, 7, 64, 1000, 12345})
    EXPECT_EQ(run(e, count), run(serial{}, count));
}

TEST_P(thread_counts, call_every_index_once) {
  const threads e(GetParam());
  std::vector<std::atomic<int>> calls(5000);
  for (int repeat = 0; repeat < 20; ++repeat) e.for_each(calls.size(), [&](std::size_t i) { calls[i]++; });
  for (const auto& c : calls) ASSERT_EQ(c.load(), 20);
}

TEST_P(thread_counts, survive_thousands_of_quick_calls) {
  const threads e(GetParam());
  std::vector<std::uint64_t> sums(64);
  std::uint64_t expected = 0;
  for (std::uint64_t k = 0; k < 20000; ++k) {
    const std::size_t count = 2 + k % 7;
    e.for_each(count, [&sums, k](std::size_t i) { sums[i] += k; });
    expected += k * count;
  }
  std::uint64_t total = 0;
  for (const std::uint64_t s : sums) total += s;
  EXPECT_EQ(total, expected);
}

TEST_P(thread_counts, pass_on_the_first_exception) {
  const threads e(GetParam());
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> running{0};
    std::string message;
    try {
      e.for_each(1000, [&](std::size_t i) {
        running++;
        struct leave {
          std::atomic<int>& n;
          ~leave() { n--; }
        } const at_end{running};
        if (i % 100 == 37) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(running.load(), 0);
      message = error.what();
    }
    EXPECT_EQ(message, "37");
  }
  EXPECT_EQ(run(e, 100), run(serial{}, 100));
}

TEST_P(thread_counts, run_nested_calls_in_place) {
  const threads e(GetParam());
  std::vector<std::vector<int>> out(20, std::vector<int>(30));
  e.for_each(out.size(), [&](std::size_t i) {
    const std::thread::id outer = std::this_thread::get_id();
    e.for_each(out[i].size(), [&](std::size_t j) {
      out[i][j] = static_cast<int>(100 * i + j) + (std::this_thread::get_id() == outer ? 0 : 1000000);
    });
  });
  for (std::size_t i = 0; i < out.size(); ++i)
    for (std::size_t j = 0; j < out[i].size(); ++j) EXPECT_EQ(out[i][j], static_cast<int>(100 * i + j));
}

TEST_P(thread_counts, start_and_stop) {
  for (int k = 0; k < 50; ++k) {
    const threads idle(GetParam());
    const threads used(GetParam());
    EXPECT_EQ(run(used, 10), run(serial{}, 10));
  }
}

TEST(threads, wake_up_after_a_nap) {
  const threads e(3);
  for (int k = 0; k < 5; ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(run(e, 500), run(serial{}, 500));
  }
}

TEST(threads, do_help) {
  const threads e(2);
  // Two tasks that wait for each other end only if they run at the same time; a helper may be slow to come, so no
  // number of attempts proves anything but the last: wait for as long as it takes.
  std::atomic<int> arrived{0};
  e.for_each(2, [&](std::size_t) {
    arrived++;
    while (arrived.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 2);
}

TEST(threads, wait_for_a_slow_helper) {
  const threads e(2);
  std::vector<int> done(2);
  std::atomic<int> arrived{0};
  const std::thread::id caller = std::this_thread::get_id();
  e.for_each(2, [&](std::size_t i) {
    arrived++;
    while (arrived.load() < 2) std::this_thread::yield();
    if (std::this_thread::get_id() != caller) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done[i] = 1;
  });
  EXPECT_EQ(done, (std::vector<int>{1, 1}));
}

TEST(threads, may_be_shared_by_several_callers) {
  const threads e(2);
  std::vector<std::thread> callers;
  std::vector<std::vector<double>> results(4);
  for (auto& result : results)
    callers.emplace_back([&] {
      for (int k = 0; k < 200; ++k) result = run(e, 300);
    });
  for (std::thread& t : callers) t.join();
  for (const auto& result : results) EXPECT_EQ(result, run(serial{}, 300));
}

void mark(std::size_t i) {
  static std::atomic<std::size_t> sum{0};
  sum += i;
}

TEST(threads, accept_any_callable) {
  threads e(2);
  e.for_each(10, mark);
  e.for_each(10, &mark);
  int calls = 0;
  serial{}.for_each(10, [&, owned = std::make_unique<int>(3)](std::size_t) mutable { calls += (*owned)++; });
  EXPECT_EQ(calls, 75);
  const threads moved = std::move(e);
  EXPECT_EQ(run(moved, 50), run(serial{}, 50));
}

TEST(threads, count_0_means_one_per_core) {
  const threads e;
  EXPECT_EQ(e.concurrency(), std::max(1u, std::thread::hardware_concurrency()));
  EXPECT_THROW(threads(-1), std::invalid_argument);
  EXPECT_THROW(threads(100000), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
