// Horizontal sums of SIMD lanes in a fixed order.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "rlcore/simd/avx512.hpp"
#include "rlcore/simd/pack.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Lanes [First, First + N) of a vector.
template <std::size_t First, class V, std::size_t... N>
RLCORE_FN auto part_of(V v, std::index_sequence<N...>) noexcept {
  return __builtin_shufflevector(v, v, (First + N)...);
}

/// The floats of half a pack as a pack of doubles.
template <class HalfPack>
RLCORE_FN pack<double> widen(HalfPack x) noexcept {
#if RLCORE_REGISTER_BYTES == 64
  return avx512_instruction::widen(x);
#else
  return __builtin_convertvector(x, pack<double>::vector);
#endif
}

/// The sum of all elements of a vector, repeatedly adding the upper half to the lower.
template <class V>
RLCORE_FN auto sum_elements(V v) noexcept {
  constexpr std::size_t half = sizeof(v) / sizeof(v[0]) / 2;
  if constexpr (half == 1)
    return v[0] + v[1];
  else
    return sum_elements(part_of<0>(v, std::make_index_sequence<half>{}) +
                        part_of<half>(v, std::make_index_sequence<half>{}));
}

/// The sum of all lanes in double.
RLCORE_FN double sum_lanes(pack<double> p) noexcept { return sum_elements(p.v); }
/// The same for floats.
RLCORE_FN double sum_lanes(pack<float> p) noexcept {
  constexpr std::size_t half = pack<double>::lanes;
  return sum_lanes(widen(part_of<0>(p.v, std::make_index_sequence<half>{})) +
                   widen(part_of<half>(p.v, std::make_index_sequence<half>{})));
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
    constexpr std::size_t half = pack<double>::lanes;
    low += widen(part_of<0>(p.v, std::make_index_sequence<half>{}));
    high += widen(part_of<half>(p.v, std::make_index_sequence<half>{}));
  }
  RLCORE_FN double total() const noexcept { return sum_lanes(low + high); }
};

RLCORE_ALGORITHM_END
RLCORE_END
