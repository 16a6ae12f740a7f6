// Stream event.
#pragma once

#include <cstdint>
#include <utility>

#include "rlcore/device/npu/stream.hpp"

RLCORE_BEGIN
namespace ascend {

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
