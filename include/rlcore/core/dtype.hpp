// bfloat16 and float16 storage types: arithmetic is done in float, conversion rounds to nearest even.
#pragma once

#include <bit>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// bfloat16: the upper half of an IEEE float. NaN stays NaN (quiet).
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  /// Rounded to nearest even; beyond the range it is infinite.
  explicit bf16(float x) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = static_cast<std::uint16_t>((u >> 16) | 0x40u);
    else
      bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  operator float() const noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// IEEE 754 binary16, with subnormals and infinities.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  /// Rounded to nearest even; beyond the range it is infinite.
  explicit f16(float x) noexcept {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
    std::uint32_t h;
    if (magnitude > 0x7f800000u) {
      h = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >= 0x477ff000u) {  // rounds to 65536 or more
      h = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // normal: rebias the exponent by 112, round at bit 13
      h = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    } else {  // subnormal: 0.5f puts the unit 2^-24 at the last mantissa bit, the adder does the rounding
      h = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(sign | h);
  }
  operator float() const noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, e = (bits >> 10) & 31u,
                        m = bits & 0x3ffu;
    if (e == 31) return std::bit_cast<float>(sign | 0x7f800000u | (m << 13));
    if (e != 0) return std::bit_cast<float>(sign | ((e + 112u) << 23) | (m << 13));
    const float magnitude = static_cast<float>(m) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

RLCORE_END
