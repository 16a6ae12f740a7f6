// Owning device buffer: move-only, typed by its device.
#pragma once

#include <concepts>
#include <cstddef>
#include <limits>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// The memory interface of a device that buffers need. upload reads and download writes host memory.
template <class D>
concept memory_device = requires(D& d, void* p, const void* q, std::size_t bytes) {
  { D::host_readable } -> std::convertible_to<bool>;  // is this the host's memory, which both dereference?
  { d.allocate(bytes) } -> std::same_as<void*>;       // aligned to 64 bytes or more; throws if out of memory
  d.release(p);                                       // throws nothing
  d.upload(p, q, bytes);
  d.download(p, q, bytes);
  d.fill_zero(p, bytes);
  d.wait();  // until all queued work is done
};

/// `size` elements of trivially copyable type T in the memory of `device`, which must outlive the buffer; their values
/// are undetermined at first. data() may be dereferenced by the host only if Device::host_readable.
template <class T, class Device>
class buffer {
  static_assert(memory_device<Device>,
                "rlcore: the device of a buffer needs static constexpr bool host_readable; void* allocate(bytes); "
                "release(p); upload(to, from, bytes); download(to, from, bytes); fill_zero(p, bytes); wait();");
  static_assert(std::is_trivially_copyable_v<T>, "rlcore: a buffer holds trivially copyable elements");

 public:
  using value_type = T;

  buffer() = default;
  /// Memory for `size` elements, undetermined at first.
  buffer(Device& device, std::size_t size)
      : device_(&device), data_(static_cast<T*>(device.allocate(bytes_of(size)))), size_(size) {}
  buffer(buffer&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  /// Frees the memory.
  buffer& operator=(buffer&& other) noexcept {
    buffer taken(std::move(other));
    std::swap(device_, taken.device_);
    std::swap(data_, taken.data_);
    std::swap(size_, taken.size_);
    return *this;
  }
  ~buffer() {
    if (data_ != nullptr) device_->release(data_);
  }

  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  std::size_t bytes() const noexcept { return size_ * sizeof(T); }

  /// Copies from host memory; throws std::invalid_argument unless the sizes agree.
  void upload(std::span<const T> host) {
    check(host.size(), "upload of ");
    if (size_ > 0) device_->upload(data_, host.data(), bytes());
  }
  /// Copies to host memory; throws std::invalid_argument unless the sizes agree.
  void download(std::span<T> host) const {
    check(host.size(), "download of ");
    if (size_ > 0) device_->download(host.data(), data_, bytes());
  }
  void fill_zero() {
    if (size_ > 0) device_->fill_zero(data_, bytes());
  }

 private:
  static std::size_t bytes_of(std::size_t size) {
    if (size > std::numeric_limits<std::size_t>::max() / 2 / sizeof(T)) throw std::bad_array_new_length();
    return size * sizeof(T);
  }
  void check(std::size_t host, const char* operation) const {
    if (host != size_)
      throw std::invalid_argument(std::string("rlcore: ") + operation + std::to_string(host) +
                                  " elements, the buffer has " + std::to_string(size_));
  }

  Device* device_ = nullptr;
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Rank 1, if the host can read the device's memory.
template <class T, class Device>
struct tensor_traits<buffer<T, Device>> {
  template <class X>
  RLCORE_FN static vector_view<std::conditional_t<std::is_const_v<X>, const T, T>> view_of(X& x) noexcept {
    static_assert(Device::host_readable || dependent_false<X>,
                  "rlcore: the host cannot read the memory of this device; download() into host memory first");
    return {x.data(), {static_cast<extent_t>(x.size())}};
  }
};

RLCORE_END
