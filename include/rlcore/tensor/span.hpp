// Views of std::span, std::vector and std::array.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/tensor/traits.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// std::span: rank 1; like the span itself, a const span of mutable elements shows them mutable.
template <class T, std::size_t Extent>
struct tensor_traits<std::span<T, Extent>> {
  static constexpr bool borrowed = true;
  RLCORE_FN static vector_view<T> view_of(const std::span<T, Extent>& x) noexcept {
    return {x.data(), {static_cast<extent_t>(x.size())}};
  }
};

/// std::vector: rank 1.
template <class T, class Allocator>
struct tensor_traits<std::vector<T, Allocator>> {
  RLCORE_FN static vector_view<T> view_of(std::vector<T, Allocator>& x) noexcept {
    return {x.data(), {static_cast<extent_t>(x.size())}};
  }
  RLCORE_FN static vector_view<const T> view_of(const std::vector<T, Allocator>& x) noexcept {
    return {x.data(), {static_cast<extent_t>(x.size())}};
  }
};

template <class Allocator>
struct tensor_traits<std::vector<bool, Allocator>> {
  template <class X>
  RLCORE_FN static vector_view<const bool> view_of(X&) noexcept {
    static_assert(dependent_false<X>,
                  "rlcore: std::vector<bool> packs eight elements into a byte, so no pointer to them exists; use "
                  "std::vector<std::uint8_t> or std::vector<float> for masks");
    return {};
  }
};

/// std::array: rank 1.
template <class T, std::size_t N>
struct tensor_traits<std::array<T, N>> {
  RLCORE_FN static vector_view<T> view_of(std::array<T, N>& x) noexcept {
    return {x.data(), {static_cast<extent_t>(N)}};
  }
  RLCORE_FN static vector_view<const T> view_of(const std::array<T, N>& x) noexcept {
    return {x.data(), {static_cast<extent_t>(N)}};
  }
};

/// [rows, cols], row-major and contiguous, of raw memory; its size is not checked.
template <class T>
  requires std::is_object_v<T>
matrix_view<T> matrix(T* pointer, extent_t rows, extent_t cols) {
  if (rows < 0 || cols < 0)
    throw std::invalid_argument("rlcore: matrix of shape " + to_string(extents<2>{rows, cols}) + ": negative extent");
  return {pointer, {rows, cols}};
}

/// The elements of a rank 1 container as [rows, cols], row-major. Throws std::invalid_argument unless rows * cols is
/// its size.
template <class X>
  requires(!std::is_pointer_v<std::decay_t<X>>)
RLCORE_FN auto matrix(X&& x, extent_t rows, extent_t cols) {
  const auto v = rlcore::as_view<1>(static_cast<X&&>(x));
  extent_t size = 0;
  if (__builtin_mul_overflow(rows, cols, &size) || size != v.shape[0])
    throw std::invalid_argument("rlcore: matrix of shape " + to_string(extents<2>{rows, cols}) +
                                " over a vector of shape " + to_string(v.shape));
  if (v.stride[0] != 1 && v.shape[0] > 1)
    throw std::invalid_argument("rlcore: matrix over a vector with stride " + std::to_string(v.stride[0]) +
                                ", expected contiguous elements");
  return rlcore::matrix(v.data, rows, cols);
}

RLCORE_END
