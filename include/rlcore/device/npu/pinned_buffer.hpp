// Pinned host memory for asynchronous copies.
#pragma once

#include <cstddef>
#include <utility>

#include "rlcore/device/npu/device_guard.hpp"

RLCORE_BEGIN
namespace ascend {

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

}  // namespace ascend
RLCORE_END
