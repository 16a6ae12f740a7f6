// Non-owning strided tensor view, the input of every objective: pointer, extents and strides of host memory. Packed
// rows (ragged), and a pointer into an array that is only partly in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

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

/// Some consecutive elements of an array, from element `first` on, addressed by their numbers in the whole array: p + i
/// points to element i, for i >= first. A plain pointer converts to one with `first` 0.
template <class T>
class offset_pointer {
 public:
  constexpr offset_pointer() noexcept = default;
  /// `elements` points to the element that the whole array has at `first`.
  constexpr offset_pointer(T* elements, std::size_t first = 0) noexcept : elements_(elements), first_(first) {}

  /// A pointer to element `i` of the whole array; i >= first.
  constexpr T* operator+(std::size_t i) const noexcept { return elements_ + (i - first_); }
  explicit constexpr operator bool() const noexcept { return elements_ != nullptr; }

 private:
  T* elements_ = nullptr;
  std::size_t first_ = 0;
};

/// Packed sequences. Row i is values[offsets[i]] .. values[offsets[i + 1]]; offsets begin with 0 (the cu_seqlens of
/// packed attention). Both members may be read freely; write them together or through the functions.
template <class T>
struct ragged {
  std::vector<T> values;
  std::vector<std::int32_t> offsets{0};

  std::size_t rows() const noexcept { return offsets.size() - 1; }
  /// Number of values in all rows together.
  std::size_t size() const noexcept { return values.size(); }
  /// True without rows; a ragged of rows without values is not empty.
  bool empty() const noexcept { return rows() == 0; }
  /// Row i; i is not checked.
  std::span<const T> row(std::size_t i) const noexcept { return std::span(values).subspan(begin(i), length(i)); }
  /// Row i, to be written; i is not checked.
  std::span<T> row(std::size_t i) noexcept { return std::span(values).subspan(begin(i), length(i)); }
  /// Where row i begins in `values`.
  std::size_t begin(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i]); }
  /// Number of values of row i.
  std::size_t length(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i + 1] - offsets[i]); }

  /// Appends a row, which must not lie in `values`. Throws std::length_error if the values would no longer be countable
  /// in 32 bits.
  void push_back(std::span<const T> row) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
    if (row.size() > most - values.size())
      throw std::length_error("rlcore: ragged: a row of " + std::to_string(row.size()) + " values after " +
                              std::to_string(values.size()) + ": expected at most " + std::to_string(most) + " in all");
    // Room for the offset first: if memory runs out, nothing has changed.
    if (offsets.size() == offsets.capacity()) offsets.reserve(2 * offsets.size());
    values.insert(values.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int32_t>(values.size()));
  }
  /// Reserves memory for this many rows and values.
  void reserve(std::size_t rows, std::size_t values_in_all) {
    offsets.reserve(rows + 1);
    values.reserve(values_in_all);
  }
  /// Removes all rows and keeps the memory.
  void clear() noexcept {
    values.clear();
    offsets.resize(1);
  }
};

/// The rows `which` of `all`, in this order; the numbers are not checked.
template <class T>
ragged<T> rows_of(const ragged<T>& all, std::span<const std::int32_t> which) {
  ragged<T> some;
  for (const std::int32_t i : which) some.push_back(all.row(static_cast<std::size_t>(i)));
  return some;
}
RLCORE_END
