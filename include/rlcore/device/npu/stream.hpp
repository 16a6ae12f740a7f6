// A stream of the NPU, its events, waiting for them, and copies between host and device through pinned memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "rlcore/device/npu/session.hpp"

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

/// Pinned memory of aclrtMallocHost. No stream may use it when it is destroyed.
class pinned_buffer {
 public:
  /// `bytes` bytes; data() is null for none. Throws npu_error if aclrtMallocHost fails.
  pinned_buffer(device_handle device, std::size_t bytes) : device_(std::move(device)), bytes_(bytes) {
    if (bytes_ == 0) return;
    const auto guard = device_.enter();
    void* data = nullptr;
    check(device_.table(), device_.table().rt.aclrtMallocHost(&data, bytes_), "aclrtMallocHost",
          " of " + std::to_string(bytes_) + " bytes");
    data_ = static_cast<std::byte*>(data);
  }
  pinned_buffer(pinned_buffer&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~pinned_buffer() {
    if (data_ != nullptr)
      device_.leave("aclrtFreeHost", [this](const calls& table) { return table.rt.aclrtFreeHost(data_); });
  }

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  device_handle device_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A ring of pinned memory for one stream: only copies from and to pinned memory are asynchronous and ordered with the
/// stream's operators.
class staging {
 public:
  /// The ring has four slots of this size, allocated when needed; the stream must outlive it.
  explicit staging(const stream& s, std::size_t slot_bytes = std::size_t{1} << 20)
      : stream_(&s), slot_bytes_(slot_bytes) {}

  /// Enqueues the copy of host memory, which may be reused at once.
  void upload(void* device, const void* host, std::size_t bytes);
  /// Waits for everything enqueued before and for the copy; throws npu_error if any of it failed. The device fills the
  /// next slot while the host empties one.
  void download(void* host, const void* device, std::size_t bytes);

 private:
  static constexpr std::size_t slots = 4;
  struct slot {
    pinned_buffer memory;
    event mark;
    bool pending = false;
  };

  /// `bytes` of the ring that no copy uses any more.
  std::byte* reserve(std::size_t bytes);
  void copy(void* to, const void* from, std::size_t bytes, copy_kind kind);

  const stream* stream_;
  std::size_t slot_bytes_;
  std::vector<slot> slots_;
  std::size_t current_ = 0, used_ = 0;
};

}  // namespace ascend
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend {

RLCORE_INLINE void staging::upload(void* device, const void* host, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(host);
  auto* to = static_cast<std::byte*>(device);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t n = std::min(bytes - done, slot_bytes_);
    std::byte* pinned = reserve(n);
    std::memcpy(pinned, from + done, n);
    copy(to + done, pinned, n, copy_kind::host_to_device);
    done += n;
  }
}

RLCORE_INLINE void staging::download(void* host, const void* device, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(host);
  const auto* from = static_cast<const std::byte*>(device);
  struct piece {
    std::byte *to = nullptr, *pinned = nullptr;
    std::size_t bytes = 0, slot = 0;
  } before;
  for (std::size_t done = 0; done < bytes;) {
    piece now;
    now.to = to + done;
    now.bytes = std::min(bytes - done, slot_bytes_);
    now.pinned = reserve(now.bytes);
    now.slot = current_;
    copy(now.pinned, from + done, now.bytes, copy_kind::device_to_host);
    if (before.bytes != 0) {
      // The ring has advanced from that slot, since a whole one was requested, and has recorded its event.
      slots_[before.slot].mark.synchronize();
      slots_[before.slot].pending = false;
      std::memcpy(before.to, before.pinned, before.bytes);
    }
    before = now;
    done += now.bytes;
  }
  stream_->synchronize();
  if (before.bytes != 0) std::memcpy(before.to, before.pinned, before.bytes);
}

RLCORE_INLINE std::byte* staging::reserve(std::size_t bytes) {
  if (slots_.empty() || used_ + bytes > slot_bytes_) {
    if (!slots_.empty()) {
      slots_[current_].mark.record(*stream_);
      slots_[current_].pending = true;
    }
    if (slots_.size() < slots) {
      const device_handle& device = stream_->device();
      slots_.push_back({pinned_buffer(device, slot_bytes_), event(device), false});
      current_ = slots_.size() - 1;
    } else {
      current_ = (current_ + 1) % slots_.size();
      if (slots_[current_].pending) slots_[current_].mark.synchronize();
      slots_[current_].pending = false;
    }
    used_ = 0;
  }
  std::byte* p = slots_[current_].memory.data() + used_;
  used_ += (bytes + 63) / 64 * 64;
  return p;
}

RLCORE_INLINE void staging::copy(void* to, const void* from, std::size_t bytes, copy_kind kind) {
  const calls& table = stream_->device().table();
  const auto guard = stream_->device().enter();
  check(table, table.rt.aclrtMemcpyAsync(to, bytes, from, bytes, kind, stream_->get()), "aclrtMemcpyAsync",
        kind == copy_kind::host_to_device ? " to the device" : " to the host");
}

}  // namespace ascend
RLCORE_END
#endif
