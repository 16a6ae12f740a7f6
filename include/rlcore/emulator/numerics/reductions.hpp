// Summation orders of the NPU's vector unit. A repeat is 256 bytes: 64 floats.
#pragma once

#include <cstddef>
#include <type_traits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

inline constexpr std::size_t lanes = 64;

/// Sum of one repeat, n <= 64: neighbours are added, then neighbours of the sums, and so on.
template <class Real>
Real tree_sum(const Real* x, std::size_t n) {
  Real t[lanes];
  for (std::size_t i = 0; i < n; ++i) t[i] = x[i];
  while (n > 1) {
    const std::size_t half = n / 2;
    for (std::size_t i = 0; i < half; ++i) t[i] = t[2 * i] + t[2 * i + 1];
    if (n % 2 != 0) t[half] = t[n - 1];
    n = half + n % 2;
  }
  return n == 1 ? t[0] : Real{0};
}

/// Sum of a row as the count interface of ReduceSum: trees of 64, added in order.
template <class Real>
Real row_sum(const Real* x, std::size_t n) {
  Real sum = tree_sum(x, n < lanes ? n : lanes);
  for (std::size_t i = lanes; i < n; i += lanes) sum += tree_sum(x + i, n - i < lanes ? n - i : lanes);
  return sum;
}

/// Sum of a row as the norms compute it: elements beyond the largest power of two are added to the front, halves are
/// added until 64 are left, which are summed as a tree. Overwrites x.
template <class Real>
Real folded_sum(Real* x, std::size_t n) {
  if (n <= lanes) return tree_sum(x, n);
  std::size_t power = lanes;
  while (power * 2 <= n) power *= 2;
  for (std::size_t i = power; i < n; ++i) x[i - power] += x[i];
  for (std::size_t half = power / 2; half >= lanes; half /= 2)
    for (std::size_t i = 0; i < half; ++i) x[i] += x[i + half];
  return tree_sum(x, lanes);
}

}  // namespace ascend::emulated
RLCORE_END
