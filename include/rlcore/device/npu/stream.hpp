// A stream of the NPU, its events, and waiting for them.
#pragma once

#include <cstdint>
#include <utility>

#include "rlcore/device/npu/device_guard.hpp"

RLCORE_BEGIN
namespace ascend {

/// Runs enqueued work in order. It stops at the first failure, so that a wait returns the cause and not a consequence.
class stream {
 public:
  /// Makes a stream by aclrtCreateStreamWithConfig, with fast launch and fast synchronisation. Throws npu_error.
  explicit stream(device_handle device) : device_(std::move(device)) {
    const auto guard = device_.enter();
    const runtime_calls& rt = device_.table().rt;
    check(device_.table(), rt.aclrtCreateStreamWithConfig(&stream_, 0, stream_fast_launch | stream_fast_sync),
          "aclrtCreateStreamWithConfig");
    // Some SoCs support only continue_on_failure.
    ignore(device_.table(), rt.aclrtSetStreamFailureMode(stream_, failure_mode::stop_on_failure));
  }
  stream(stream&& other) noexcept : device_(other.device_), stream_(std::exchange(other.stream_, nullptr)) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    return *this;
  }
  /// Waits for the enqueued work.
  ~stream() {
    if (stream_ != nullptr)
      device_.leave("aclrtDestroyStream", [this](const calls& table) { return table.rt.aclrtDestroyStream(stream_); });
  }

  aclrtStream get() const noexcept { return stream_; }
  const device_handle& device() const noexcept { return device_; }
  /// Whether all enqueued work is done or has failed: the next wait reports the failure and its message.
  bool idle() const {
    const auto guard = device_.enter();
    stream_status status = stream_status::not_ready;
    return device_.table().rt.aclrtStreamQuery(stream_, &status) != 0 || status == stream_status::complete;
  }
  /// Waits for all enqueued work; throws npu_error on failure.
  void synchronize() const {
    const auto guard = device_.enter();
    check(device_.table(), device_.table().rt.aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream");
  }

 private:
  device_handle device_;
  aclrtStream stream_ = nullptr;
};

/// May be recorded any number of times; waits and queries refer to the last record.
class event {
 public:
  /// Makes an event by aclrtCreateEventExWithFlag; `flags` are event_sync, event_time_line or both. Throws npu_error.
  explicit event(device_handle device, std::uint32_t flags = event_sync) : device_(std::move(device)) {
    const auto guard = device_.enter();
    check(device_.table(), device_.table().rt.aclrtCreateEventExWithFlag(&event_, flags), "aclrtCreateEventExWithFlag");
  }
  event(event&& other) noexcept : device_(other.device_), event_(std::exchange(other.event_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~event() {
    if (event_ != nullptr)
      device_.leave("aclrtDestroyEvent", [this](const calls& table) { return table.rt.aclrtDestroyEvent(event_); });
  }

  aclrtEvent get() const noexcept { return event_; }
  /// Records the event after all work enqueued in `s` so far.
  void record(const stream& s) {
    const auto guard = device_.enter();
    check(device_.table(), device_.table().rt.aclrtRecordEvent(event_, s.get()), "aclrtRecordEvent");
  }
  /// Makes later work in `s` wait for the event.
  void block(const stream& s) const {
    const auto guard = s.device().enter();
    check(device_.table(), device_.table().rt.aclrtStreamWaitEvent(s.get(), event_), "aclrtStreamWaitEvent");
  }
  /// Whether the stream has reached the event.
  bool passed() const {
    const auto guard = device_.enter();
    event_status status = event_status::not_ready;
    check(device_.table(), device_.table().rt.aclrtQueryEventStatus(event_, &status), "aclrtQueryEventStatus");
    return status == event_status::complete;
  }
  /// Waits until the stream has reached the event.
  void synchronize() const {
    const auto guard = device_.enter();
    check(device_.table(), device_.table().rt.aclrtSynchronizeEvent(event_), "aclrtSynchronizeEvent");
  }
  /// Milliseconds from `start` to this event; both created with event_time_line and reached.
  float milliseconds_since(const event& start) const {
    const auto guard = device_.enter();
    float milliseconds = 0;
    check(device_.table(), device_.table().rt.aclrtEventElapsedTime(&milliseconds, start.event_, event_),
          "aclrtEventElapsedTime");
    return milliseconds;
  }

 private:
  device_handle device_;
  aclrtEvent event_ = nullptr;
};

}  // namespace ascend

RLCORE_END
