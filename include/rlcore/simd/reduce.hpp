// Sums of lanes in a fixed order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "rlcore/simd/pack.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The sum of all lanes in double, neighbours first: ((0+1)+(2+3))+...
template <class T>
RLCORE_FN double sum_lanes(pack<T> p) noexcept {
  double lane[pack<T>::lanes];
  for (std::size_t k = 0; k < pack<T>::lanes; ++k) lane[k] = static_cast<double>(p.v[k]);
  for (std::size_t width = pack<T>::lanes; width > 1; width /= 2)
    for (std::size_t k = 0; k < width / 2; ++k) lane[k] = lane[2 * k] + lane[2 * k + 1];
  return lane[0];
}

/// Lane-wise sums in double of packs of T, so that a row of any length loses no digits of its sum.
template <class T>
struct wide_sum;

template <>
struct wide_sum<double> {
  pack<double> sum = 0.0;
  RLCORE_FN void add(pack<double> p) noexcept { sum += p; }
  RLCORE_FN double total() const noexcept { return sum_lanes(sum); }
};

template <>
struct wide_sum<float> {
  pack<double> low = 0.0, high = 0.0;
  RLCORE_FN void add(pack<float> p) noexcept {
    typedef float half_pack __attribute__((vector_size(register_bytes / 2)));
    half_pack halves[2];
    std::memcpy(halves, &p.v, sizeof(halves));
    low += pack<double>(__builtin_convertvector(halves[0], pack<double>::vector));
    high += pack<double>(__builtin_convertvector(halves[1], pack<double>::vector));
  }
  RLCORE_FN double total() const noexcept { return sum_lanes(low + high); }
};

RLCORE_ALGORITHM_END
RLCORE_END
