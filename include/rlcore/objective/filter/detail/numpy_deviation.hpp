// Standard deviations with NumPy's rounding.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/scratch_vector.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Sum in the order of numpy.add.reduce: one after the other below 8, eight running sums up to 128, halves beyond.
template <class T>
T numpy_sum(std::span<const T> x) noexcept {
  const std::size_t n = x.size();
  if (n < 8) {
    T sum = T(0);
    for (const T v : x) sum += v;
    return sum;
  }
  if (n <= 128) {
    std::array<T, 8> r;
    for (std::size_t k = 0; k < 8; ++k) r[k] = x[k];
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (std::size_t k = 0; k < 8; ++k) r[k] += x[i + k];
    T sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) sum += x[i];
    return sum;
  }
  const std::size_t half = n / 2 - n / 2 % 8;
  return numpy_sum(x.first(half)) + numpy_sum(x.subspan(half));
}

/// numpy.std(x), which divides by n; NaN for no elements.
template <class T>
T numpy_deviation(std::span<const T> x) noexcept {
  const T n = static_cast<T>(x.size());
  const T mean = numpy_sum(x) / n;
  scratch_vector<T> squares;
  squares.reserve(x.size());
  for (const T v : x) squares.push_back((v - mean) * (v - mean));
  return std::sqrt(numpy_sum(std::span<const T>(squares)) / n);
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
