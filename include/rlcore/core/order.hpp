// min, max, clamp, fill and sort without <algorithm>, which would be a fifth of the compile time of a program with one
// loss.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/scratch_vector.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// The smaller; a if they are equal or cannot be compared, as std::min.
template <class T>
constexpr T least(T a, std::type_identity_t<T> b) noexcept {
  return b < a ? b : a;
}
/// The larger; a if they are equal or cannot be compared, as std::max.
template <class T>
constexpr T greatest(T a, std::type_identity_t<T> b) noexcept {
  return a < b ? b : a;
}
/// x, but no less than low and no more than high, as std::clamp.
template <class T>
constexpr T between(T x, std::type_identity_t<T> low, std::type_identity_t<T> high) noexcept {
  return x < low ? low : high < x ? high : x;
}
template <class T>
constexpr void fill(T* from, T* to, std::type_identity_t<T> value) noexcept {
  for (; from != to; ++from) *from = value;
}

/// A span of a whole vector. The standard conversion checks range concepts, which takes longer to compile than all
/// other uses of the span.
template <class Vector>
auto span_of(Vector& v) noexcept {
  return std::span<std::remove_pointer_t<decltype(v.data())>>(v.data(), v.size());
}

/// 0, 1, ..., count - 1 as T.
template <class T>
scratch_vector<T> counted(std::size_t count) {
  scratch_vector<T> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<T>(i);
  return order;
}

/// Stable sort. `before(a, b)` is a strict weak order.
template <class T, class Before>
void sort_stably(scratch_vector<T>& order, Before before) {
  scratch_vector<T> merged(order.size());
  for (std::size_t run = 1; run < order.size(); run *= 2) {  // runs of this length are sorted
    for (std::size_t begin = 0; begin < order.size(); begin += 2 * run) {
      const std::size_t middle = least(begin + run, order.size()), end = least(begin + 2 * run, order.size());
      std::size_t left = begin, right = middle;
      for (std::size_t to = begin; to < end; ++to) {
        const bool take_right = right < end && (left == middle || before(order[right], order[left]));
        merged[to] = order[take_right ? right++ : left++];
      }
    }
    order.swap(merged);
  }
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
