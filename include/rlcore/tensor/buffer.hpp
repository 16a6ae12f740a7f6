// Owning memory of a device: move-only, typed by the device it lives on.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// n uninitialised elements of trivial type T, obtained from `device.allocate(bytes)` and given back by
/// `device.release(pointer)`. The device must outlive the buffer. data() may be dereferenced by the host only if
/// Device::host_readable.
template <class T, class Device>
class buffer {
  static_assert(std::is_trivially_copyable_v<T>, "rlcore: a buffer holds trivially copyable elements");

 public:
  buffer() = default;
  buffer(Device& device, std::size_t size)
      : device_(&device), data_(static_cast<T*>(device.allocate(size * sizeof(T)))), size_(size) {}
  buffer(buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) device_->release(data_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(T); }

 private:
  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

RLCORE_END
