// Streams and events of the emulated machine: real asynchrony, and the rules of AscendCL's documentation.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <thread>

#include "emulator/machine_fixture.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace npu_test;
using emulated::enqueue;
using testing::AllOf;
using testing::HasSubstr;

class emulator_streams : public machine_test {};

TEST_F(emulator_streams, tasks_run_in_order_on_another_thread) {
  const auto s = stream();
  std::vector<int> order;
  std::set<std::thread::id> threads;
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(enqueue(s, "count",
                      [&, i] {
                        order.push_back(i);
                        threads.insert(std::this_thread::get_id());
                      }),
              0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order.at(static_cast<std::size_t>(i)), i);
  EXPECT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_streams, a_read_that_does_not_wait_sees_the_old_data) {
  const auto s = stream();
  void* p = allocate(64);
  put(p, std::vector<float>(16, 1.0f));
  gate hold;
  EXPECT_EQ(enqueue(s, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtMemsetAsync(p, 64, 0, 64, s), 0);
  EXPECT_EQ(get<float>(p, 1)[0], 1);  // aclrtMemcpy does not wait for streams
  stream_status status{};
  EXPECT_EQ(rt.aclrtStreamQuery(s, &status), 0);
  EXPECT_EQ(status, stream_status::not_ready);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  EXPECT_EQ(get<float>(p, 1)[0], 0);
  EXPECT_EQ(rt.aclrtStreamQuery(s, &status), 0);
  EXPECT_EQ(status, stream_status::complete);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_streams, pinned_copies_are_asynchronous_and_pageable_ones_block) {
  const auto s = stream();
  void *p = allocate(64), *host = nullptr;
  EXPECT_EQ(rt.aclrtMallocHost(&host, 64), 0);
  auto* pinned = static_cast<float*>(host);
  put(p, std::vector<float>(16, 3.0f));
  pinned[0] = 1;
  gate hold;
  EXPECT_EQ(enqueue(s, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtMemcpyAsync(pinned, 64, p, 64, copy_kind::device_to_host, s), 0);
  hold.wait_for_visitor();
  EXPECT_EQ(pinned[0], 1);  // still on its way
  std::atomic<bool> returned{false};
  float pageable[16] = {};
  ascend::aclrtContext context = nullptr;
  EXPECT_EQ(rt.aclrtGetCurrentContext(&context), 0);
  std::thread copier([&] {
    EXPECT_EQ(rt.aclrtSetCurrentContext(context), 0);
    EXPECT_EQ(rt.aclrtMemcpyAsync(pageable, 64, p, 64, copy_kind::device_to_host, s), 0);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(returned);
  hold.open();
  copier.join();
  EXPECT_EQ(pageable[15], 3);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  EXPECT_EQ(pinned[0], 3);
  EXPECT_EQ(rt.aclrtFreeHost(host), 0);
  EXPECT_EQ(rt.aclrtFree(p), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_streams, host_memory_freed_before_its_copy_ran_is_an_error_of_the_stream) {
  void *p = allocate(64), *host = nullptr;
  EXPECT_EQ(rt.aclrtMallocHost(&host, 64), 0);
  gate hold;
  EXPECT_EQ(enqueue(nullptr, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtMemcpyAsync(p, 64, host, 64, copy_kind::host_to_device, nullptr), 0);
  EXPECT_EQ(rt.aclrtFreeHost(host), 0);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(nullptr), 507015);
  EXPECT_EQ(rt.aclrtFree(p), 0);
}

TEST_F(emulator_streams, an_event_orders_two_streams) {
  const auto first = stream(), second = stream();
  const auto e = event();
  int value = 0, seen = -1;
  gate hold;
  EXPECT_EQ(enqueue(first, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(enqueue(first, "writes", [&] { value = 7; }), 0);
  EXPECT_EQ(rt.aclrtRecordEvent(e, first), 0);
  EXPECT_EQ(rt.aclrtStreamWaitEvent(second, e), 0);
  EXPECT_EQ(enqueue(second, "reads", [&] { seen = value; }), 0);
  event_status status{};
  EXPECT_EQ(rt.aclrtQueryEventStatus(e, &status), 0);
  EXPECT_EQ(status, event_status::not_ready);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(second), 0);
  EXPECT_EQ(seen, 7);
  EXPECT_EQ(rt.aclrtQueryEventStatus(e, &status), 0);
  EXPECT_EQ(status, event_status::complete);
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(first), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(second), 0);
}

TEST_F(emulator_streams, a_wait_is_for_the_record_before_it) {
  const auto first = stream(), second = stream();
  const auto e = event();
  event_status status{};
  EXPECT_EQ(rt.aclrtQueryEventStatus(e, &status), 0);
  EXPECT_EQ(status, event_status::complete);  // never recorded: nothing to wait for
  EXPECT_EQ(rt.aclrtSynchronizeEvent(e), 0);
  EXPECT_EQ(rt.aclrtStreamWaitEvent(second, e), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStream(second), 0);

  EXPECT_EQ(rt.aclrtRecordEvent(e, first), 0);
  EXPECT_EQ(rt.aclrtStreamWaitEvent(second, e), 0);
  gate hold;
  EXPECT_EQ(enqueue(first, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtRecordEvent(e, first), 0);  // the same event again: the wait does not mind
  EXPECT_EQ(rt.aclrtSynchronizeStream(second), 0);
  EXPECT_EQ(rt.aclrtQueryEventStatus(e, &status), 0);
  EXPECT_EQ(status, event_status::not_ready);
  EXPECT_EQ(rt.aclrtStreamWaitEvent(second, e), 0);
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);  // while somebody waits: allowed
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStream(second), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(first), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(second), 0);
}

TEST_F(emulator_streams, events_measure_time) {
  const auto s = stream();
  const auto start = event(ascend::event_time_line), end = event(ascend::event_time_line);
  EXPECT_EQ(rt.aclrtRecordEvent(start, s), 0);
  EXPECT_EQ(enqueue(s, "sleeps", [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }), 0);
  EXPECT_EQ(rt.aclrtRecordEvent(end, s), 0);
  float milliseconds = 0;
  EXPECT_EQ(rt.aclrtSynchronizeEvent(end), 0);
  EXPECT_EQ(rt.aclrtEventElapsedTime(&milliseconds, start, end), 0);
  EXPECT_GE(milliseconds, 20);
  EXPECT_LT(milliseconds, 60000);
  EXPECT_EQ(rt.aclrtDestroyEvent(start), 0);
  EXPECT_EQ(rt.aclrtDestroyEvent(end), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

void fail_with(int code, const char* why) { throw emulated::outcome_error{code, why}; }

TEST_F(emulator_streams, a_failure_comes_with_a_later_synchronisation_and_the_last_one_wins) {
  const auto s = stream();
  bool ran = false;
  EXPECT_EQ(enqueue(s, "aclnnFirst", [] { fail_with(507015, "one"); }), 0);
  EXPECT_EQ(enqueue(s, "aclnnSecond", [] { fail_with(507035, "two"); }), 0);
  EXPECT_EQ(enqueue(s, "aclnnThird", [&] { ran = true; }), 0);
  const auto e = event();
  EXPECT_EQ(rt.aclrtRecordEvent(e, s), 0);
  EXPECT_EQ(rt.aclrtSynchronizeEvent(e), 0);  // the stream goes on
  EXPECT_TRUE(ran);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 507035);
  EXPECT_THAT(message(), AllOf(HasSubstr("aclnnSecond"), HasSubstr("two")));
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  EXPECT_EQ(enqueue(s, "throws", [] { throw std::runtime_error("something else"); }), 0);
  EXPECT_EQ(rt.aclrtSynchronizeDevice(), 507015);
  EXPECT_THAT(message(), HasSubstr("something else"));
  EXPECT_EQ(enqueue(s, "throws", [] { fail_with(507015, "unseen"); }), 0);
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 507015);  // nothing is hidden
}

TEST_F(emulator_streams, stopping_at_failures_stops_the_whole_context) {
  const auto s = stream(), other = stream();
  EXPECT_EQ(rt.aclrtSetStreamFailureMode(s, ascend::failure_mode::stop_on_failure), 0);
  EXPECT_EQ(rt.aclrtSetStreamFailureMode(s, ascend::failure_mode::continue_on_failure), 107000);
  bool ran = false;
  gate hold;
  EXPECT_EQ(enqueue(s, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(enqueue(s, "fails", [] { fail_with(507015, "one"); }), 0);
  EXPECT_EQ(enqueue(s, "never", [&] { ran = true; }), 0);
  const auto e = event();
  EXPECT_EQ(rt.aclrtRecordEvent(e, s), 0);
  EXPECT_EQ(rt.aclrtStreamWaitEvent(other, e), 0);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeEvent(e), 507015);
  event_status status{};
  EXPECT_EQ(rt.aclrtQueryEventStatus(e, &status), 0);
  EXPECT_EQ(status, event_status::not_ready);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 507015);
  EXPECT_EQ(rt.aclrtSynchronizeStream(s), 507015);  // for good
  EXPECT_EQ(rt.aclrtSynchronizeStream(other), 507015);
  EXPECT_EQ(enqueue(s, "refused", [&] { ran = true; }), 507015);
  EXPECT_EQ(enqueue(other, "refused", [&] { ran = true; }), 507015);
  EXPECT_FALSE(ran);
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 507015);
  EXPECT_EQ(rt.aclrtDestroyStream(other), 507015);
}

TEST_F(emulator_streams, waiting_has_a_limit_if_asked_for) {
  const auto s = stream();
  gate hold;
  EXPECT_EQ(enqueue(s, "holds", [&] { hold.pass(); }), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStreamWithTimeout(s, 5), 507046);
  EXPECT_EQ(rt.aclrtSynchronizeStreamWithTimeout(s, -2), 107000);
  hold.open();
  EXPECT_EQ(rt.aclrtSynchronizeStreamWithTimeout(s, 60000), 0);
  EXPECT_EQ(rt.aclrtSynchronizeStreamWithTimeout(s, -1), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_streams, destroying_a_stream_waits_for_its_tasks) {
  const auto s = stream();
  std::atomic<int> ran{0};
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(enqueue(s, "slow",
                      [&] {
                        std::this_thread::sleep_for(std::chrono::milliseconds(1));
                        ++ran;
                      }),
              0);
  EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
  EXPECT_EQ(ran, 10);
}

TEST_F(emulator_streams, thousands_of_idle_streams_cost_no_threads) {
  std::vector<ascend::aclrtStream> all;
  for (int i = 0; i < 1984; ++i) all.push_back(stream());
  ascend::aclrtStream one_more = nullptr;
  EXPECT_EQ(rt.aclrtCreateStream(&one_more), 207008);
  for (const auto s : all) EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
  for (const auto s : all) EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
}

TEST_F(emulator_streams, a_device_has_65536_events) {
  std::vector<ascend::aclrtEvent> all(65536);
  for (auto& e : all) ASSERT_EQ(rt.aclrtCreateEventExWithFlag(&e, ascend::event_sync), 0);
  ascend::aclrtEvent one_more = nullptr;
  EXPECT_EQ(rt.aclrtCreateEventExWithFlag(&one_more, ascend::event_sync), 207007);
  for (const auto e : all) ASSERT_EQ(rt.aclrtDestroyEvent(e), 0);
}

TEST_F(emulator_streams, many_threads_share_a_device) {
  void* sums = allocate(8 * sizeof(std::int64_t));
  put(sums, std::vector<std::int64_t>(8, 0));
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      EXPECT_EQ(rt.aclrtSetDevice(0), 0);
      const auto s = stream();
      auto* mine = static_cast<std::int64_t*>(sums) + t;
      for (int i = 0; i < 100; ++i)
        EXPECT_EQ(enqueue(s, "adds",
                          [mine] {
                            std::byte* data = emulated::shadow(mine, 8, emulated::access::write);
                            ++*reinterpret_cast<std::int64_t*>(data);
                          }),
                  0);
      EXPECT_EQ(rt.aclrtSynchronizeStream(s), 0);
      EXPECT_EQ(rt.aclrtDestroyStream(s), 0);
      EXPECT_EQ(rt.aclrtResetDevice(0), 0);
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(get<std::int64_t>(sums, 8), std::vector<std::int64_t>(8, 100));
  EXPECT_EQ(rt.aclrtFree(sums), 0);
}

/// A machine whose tasks start late by up to 2 ms.
class emulator_delays : public machine_test {
 protected:
  emulator_delays() : machine_test(late()) {}
  static emulated::settings late() {
    emulated::settings s = small_machine();
    s.delay_microseconds = 2000;
    s.seed = 5;
    return s;
  }
};

TEST_F(emulator_delays, expose_a_wait_that_was_forgotten) {
  const auto first = stream(), second = stream();
  void* p = allocate(4);
  int wrong = 0, right = 0;
  const auto e = event();
  for (int i = 1; i <= 20 || (i <= 100 && wrong < 3); ++i) {
    for (const bool waits : {false, true}) {
      std::int32_t seen = -1;
      put(p, std::vector<std::int32_t>{-1});
      EXPECT_EQ(rt.aclrtMemsetAsync(p, 4, i, 4, first), 0);
      EXPECT_EQ(rt.aclrtRecordEvent(e, first), 0);
      if (waits) {
        EXPECT_EQ(rt.aclrtStreamWaitEvent(second, e), 0);
      }
      EXPECT_EQ(rt.aclrtMemcpyAsync(&seen, 4, p, 4, copy_kind::device_to_host, second), 0);
      EXPECT_EQ(rt.aclrtSynchronizeStream(first), 0);
      EXPECT_EQ(rt.aclrtSynchronizeStream(second), 0);
      (waits ? right : wrong) += seen != i * 0x01010101;
    }
  }
  EXPECT_EQ(right, 0);
  EXPECT_GE(wrong, 3);  // about half; by the clock, therefore no exact number
  EXPECT_EQ(rt.aclrtFree(p), 0);
  EXPECT_EQ(rt.aclrtDestroyEvent(e), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(first), 0);
  EXPECT_EQ(rt.aclrtDestroyStream(second), 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
