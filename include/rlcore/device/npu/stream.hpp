// Device stream.
#pragma once

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

}  // namespace ascend
RLCORE_END
