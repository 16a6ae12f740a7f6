// Rounding of the NPU's types, and the order of its sums over an axis.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/device/npu/abi/types.hpp"
#include "rlcore/device/npu/npu_settings.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The increment of a magnitude in integer form before its lowest `dropped` bits (1 to 31) are cut off.
constexpr std::uint32_t rounding_increment(std::uint32_t magnitude, std::uint32_t dropped, rounding mode) noexcept {
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1);
  switch (mode) {
    case rounding::nearest_even:
      return half - 1 + ((magnitude >> dropped) & 1u);
    case rounding::nearest_away:
      return half;
    case rounding::toward_zero:
      return 0;
    default:
      return half - 1;
  }
}

/// A float without its `dropped` (1 to 22) lowest fraction bits. Infinity stays, NaN stays NaN; a finite value that
/// rounds beyond the largest one becomes infinite.
constexpr float drop_fraction(float x, std::uint32_t dropped, rounding mode) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t mask = (std::uint32_t{1} << dropped) - 1, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return std::bit_cast<float>((u | 0x400000u) & ~mask);
  return std::bit_cast<float>((u & 0x80000000u) | ((magnitude + rounding_increment(magnitude, dropped, mode)) & ~mask));
}

/// HF32, in which the cube of A2 and A3 multiplies floats on request: 8 exponent and 11 fraction bits.
constexpr float to_hf32(float x, rounding mode = rounding::nearest_zero) noexcept { return drop_fraction(x, 12, mode); }

/// The bits of x as bfloat16. Saturation turns infinity into the largest finite value and NaN into zero.
constexpr std::uint16_t to_bfloat16(float x, rounding mode = rounding::nearest_even,
                                    overflow_mode overflow = overflow_mode::infnan) noexcept {
  const auto bits = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(drop_fraction(x, 16, mode)) >> 16);
  if (overflow == overflow_mode::saturation && (bits & 0x7fffu) >= 0x7f80u)
    return (bits & 0x7fffu) > 0x7f80u ? std::uint16_t{0} : static_cast<std::uint16_t>((bits & 0x8000u) | 0x7f7fu);
  return bits;
}

/// The bits of x as float16; subnormal results are rounded as such. Saturation as above.
constexpr std::uint16_t to_float16(float x, rounding mode = rounding::nearest_even,
                                   overflow_mode overflow = overflow_mode::infnan) noexcept {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  const bool saturates = overflow == overflow_mode::saturation;
  if (magnitude > 0x7f800000u)
    return static_cast<std::uint16_t>(saturates ? 0u : sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  std::uint32_t h = 0;
  if (magnitude == 0x7f800000u) {
    h = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal: rebias the exponent by 112
    const std::uint32_t rebiased = magnitude - 0x38000000u;
    h = (rebiased + rounding_increment(rebiased, 13, mode)) >> 13;
    if (h >= 0x7c00u) h = mode == rounding::toward_zero ? 0x7bffu : 0x7c00u;
  } else if (magnitude >= 0x32800000u) {  // 2^-26 and more: in units of 2^-24
    const std::uint32_t dropped = 126 - (magnitude >> 23), significand = (magnitude & 0x7fffffu) | 0x800000u;
    h = (significand + rounding_increment(significand, dropped, mode)) >> dropped;
  }
  if (saturates && h >= 0x7c00u) h = 0x7bffu;
  return static_cast<std::uint16_t>(sign | h);
}

/// The value of x in a tensor of type `type`: float16 and bfloat16 round, other types keep the float.
constexpr float stored_as(float x, data_type type, rounding mode = rounding::nearest_even,
                          overflow_mode overflow = overflow_mode::infnan) noexcept {
  if (type == data_type::bfloat16)
    return std::bit_cast<float>(static_cast<std::uint32_t>(to_bfloat16(x, mode, overflow)) << 16);
  if (type == data_type::float16) {
    f16 h;
    h.bits = to_float16(x, mode, overflow);
    return h;
  }
  return x;
}

/// The same for many values, in place.
inline void round_values(std::span<float> values, data_type type, rounding mode = rounding::nearest_even,
                         overflow_mode overflow = overflow_mode::infnan) {
  if (type == data_type::bfloat16 && overflow == overflow_mode::infnan) {
    if (mode == rounding::nearest_even)
      for (float& x : values) x = drop_fraction(x, 16, rounding::nearest_even);
    else if (mode == rounding::nearest_away)
      for (float& x : values) x = drop_fraction(x, 16, rounding::nearest_away);
    else
      for (float& x : values) x = drop_fraction(x, 16, mode);
  } else if (type == data_type::bfloat16 || type == data_type::float16) {
    for (float& x : values) x = stored_as(x, type, mode, overflow);
  }
}

/// x rounded to odd: a later rounding of the result to bfloat16 or float16 equals one rounding of x.
inline float to_odd(double x) noexcept {
  float nearest = static_cast<float>(x);
  if (std::isnan(x) || std::isinf(x) || static_cast<double>(nearest) == x) return nearest;
  if (std::isinf(nearest)) nearest = std::copysign(std::numeric_limits<float>::max(), nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(x)) --bits;  // toward zero; x is not zero
  return std::bit_cast<float>(bits | 1u);
}

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
