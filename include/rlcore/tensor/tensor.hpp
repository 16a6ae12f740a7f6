// Owning tensor: a device buffer with a shape.
#pragma once

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Row-major, contiguous tensor in the memory of `device`, which must outlive it. Move-only.
template <class T, std::size_t Rank, class Device>
class tensor {
 public:
  static constexpr std::size_t rank = Rank;

  tensor() = default;
  /// Elements are undetermined at first. Throws std::invalid_argument for a negative extent.
  tensor(Device& device, extents<Rank> shape) : memory_(device, count(shape)), shape_(shape) {}
  tensor(tensor&& other) noexcept : memory_(std::move(other.memory_)), shape_(std::exchange(other.shape_, {})) {}
  tensor& operator=(tensor&& other) noexcept {
    memory_ = std::move(other.memory_);
    shape_ = std::exchange(other.shape_, {});
    return *this;
  }

  T* data() noexcept { return memory_.data(); }
  const T* data() const noexcept { return memory_.data(); }
  const extents<Rank>& shape() const noexcept { return shape_; }
  std::size_t size() const noexcept { return memory_.size(); }
  /// The elements as one row, for upload, download and fill_zero.
  buffer<T, Device>& memory() noexcept { return memory_; }
  const buffer<T, Device>& memory() const noexcept { return memory_; }

 private:
  static std::size_t count(const extents<Rank>& shape) {
    std::size_t n = 1;
    for (const extent_t e : shape) {
      if (e < 0 || __builtin_mul_overflow(n, static_cast<std::size_t>(e), &n))
        throw std::invalid_argument("rlcore: tensor of shape " + to_string(shape) + ": negative or too large");
    }
    return n;
  }

  buffer<T, Device> memory_;
  extents<Rank> shape_{};
};

/// Rank as declared, if the host can read the device's memory.
template <class T, std::size_t Rank, class Device>
struct tensor_traits<tensor<T, Rank, Device>> {
  template <class X>
  RLCORE_FN static view<std::conditional_t<std::is_const_v<X>, const T, T>, Rank> view_of(X& x) noexcept {
    static_assert(
        Device::host_readable || dependent_false<X>,
        "rlcore: the host cannot read the memory of this device; download() into host memory first, or name the "
        "device where a loss is computed: token_batch<float, Device>");
    return {x.data(), x.shape()};
  }
};

RLCORE_END
