// Non-owning strided tensor view, the input of every objective: pointer, extents and strides of host memory.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN

/// A number of elements or rows, and an index.
using extent_t = std::ptrdiff_t;

/// One number per dimension: a shape or the strides.
template <std::size_t Rank>
using extents = std::array<extent_t, Rank>;

/// Non-owning strided view of Rank dimensions; strides are in elements. Trivially copyable, never allocates.
template <class T, std::size_t Rank>
struct view {
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  static constexpr std::size_t rank = Rank;

  T* data = nullptr;
  extents<Rank> shape{};
  extents<Rank> stride{};

  RLCORE_FN view() = default;
  /// Any strides, in elements.
  RLCORE_FN view(T* pointer, extents<Rank> shape_, extents<Rank> stride_) noexcept
      : data(pointer), shape(shape_), stride(stride_) {}
  /// Row-major and contiguous.
  RLCORE_FN view(T* pointer, extents<Rank> shape_) noexcept : data(pointer), shape(shape_) {
    extent_t step = 1;
    for (std::size_t d = Rank; d-- > 0; step *= shape[d]) stride[d] = step;
  }

  RLCORE_FN extent_t size() const noexcept {
    extent_t n = 1;
    for (const extent_t e : shape) n *= e;
    return n;
  }
  /// The element at these indices, which are not checked.
  template <class... Index>
    requires(sizeof...(Index) == Rank)
  RLCORE_FN T& operator()(Index... index) const noexcept {
    extent_t at = 0;
    std::size_t d = 0;
    ((at += static_cast<extent_t>(index) * stride[d++]), ...);
    return data[at];
  }
  /// First element of row i of a matrix; the row's elements are stride[1] apart.
  RLCORE_FN T* row(extent_t i) const noexcept
    requires(Rank == 2)
  {
    return data + i * stride[0];
  }
  RLCORE_FN operator view<const T, Rank>() const noexcept
    requires(!std::is_const_v<T>)
  {
    return {data, shape, stride};
  }
};

/// A non-owning vector [n] with any stride.
template <class T>
using vector_view = view<T, 1>;
/// A non-owning matrix [rows, columns] with any strides.
template <class T>
using matrix_view = view<T, 2>;

RLCORE_ALGORITHM_BEGIN
/// "[4, 7]", for messages.
template <std::size_t Rank>
std::string to_string(const extents<Rank>& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < Rank; ++d) text += (d ? ", " : "") + std::to_string(shape[d]);
  return text + "]";
}
RLCORE_ALGORITHM_END

RLCORE_END
