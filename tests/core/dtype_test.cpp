#include "rlcore/core/dtype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::bf16;
using rlcore::f16;

/// The value of a 16-bit pattern by the definition of IEEE 754: sign, exponent field of `exponent_bits`, fraction.
double value(std::uint32_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  const int fraction = static_cast<int>(bits) & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000u) ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

/// Round to nearest, ties to the even pattern, by search among all values; the next value after the largest finite one
/// would be 2^(maximal exponent), and everything from half way to it on is infinite.
class rounding {
 public:
  explicit rounding(int exponent_bits) : infinity_(((1u << exponent_bits) - 1) << (15 - exponent_bits)) {
    for (std::uint32_t bits = 0; bits < infinity_; ++bits) values_.push_back(value(bits, exponent_bits));
    values_.push_back(std::ldexp(1, 1 << (exponent_bits - 1)));
  }
  std::uint32_t operator()(float x) const {
    const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0;
    const double magnitude = std::fabs(static_cast<double>(x));
    if (magnitude >= values_.back()) return sign | infinity_;
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    auto lower = static_cast<std::uint32_t>(above - values_.begin() - 1);
    const double down = magnitude - values_[lower], up = values_[lower + 1] - magnitude;
    if (down > up || (down == up && lower % 2 == 1)) ++lower;
    return sign | lower;
  }

 private:
  std::uint32_t infinity_;
  std::vector<double> values_;
};

template <class T>
struct format;
template <>
struct format<bf16> {
  static constexpr int exponent_bits = 8;
};
template <>
struct format<f16> {
  static constexpr int exponent_bits = 5;
};

template <class T>
class storage : public testing::Test {};
using formats = testing::Types<bf16, f16>;
TYPED_TEST_SUITE(storage, formats);

TYPED_TEST(storage, every_pattern_has_its_value) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    TypeParam x;
    x.bits = static_cast<std::uint16_t>(bits);
    const double expected = value(bits, format<TypeParam>::exponent_bits);
    const float found = x;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
      continue;
    }
    ASSERT_EQ(found, expected) << bits;
    ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
  }
}

TYPED_TEST(storage, every_pattern_survives_the_way_there_and_back) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    TypeParam x;
    x.bits = static_cast<std::uint16_t>(bits);
    const TypeParam y(static_cast<float>(x));
    if (std::isnan(static_cast<float>(x)))
      ASSERT_TRUE(std::isnan(static_cast<float>(y))) << bits;
    else
      ASSERT_EQ(y.bits, x.bits);
  }
}

TYPED_TEST(storage, floats_round_to_nearest_even) {
  const rounding expected(format<TypeParam>::exponent_bits);
  // All signs and exponents of float with fractions that lie on, next to and between the points where rounding turns.
  std::vector<std::uint32_t> fractions;
  for (std::uint32_t i = 0; i < 257; ++i) {
    const std::uint32_t spread = (i * 2654435761u) & 0x7fffffu;
    for (const std::uint32_t base : {spread, spread & 0x7f0000u, (spread & 0x7fe000u) | 0x1000u, spread & 0x7fe000u,
                                     (spread & 0x7f0000u) | 0x8000u})
      for (const std::uint32_t near : {0u, 1u, 0x7fffffu}) fractions.push_back((base + near) & 0x7fffffu);
  }
  for (std::uint32_t head = 0; head < 512; ++head)
    for (const std::uint32_t fraction : fractions) {
      const auto x = std::bit_cast<float>((head << 23) | fraction);
      if (std::isnan(x)) {
        ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(x)))) << x;
        continue;
      }
      ASSERT_EQ(TypeParam(x).bits, expected(x)) << std::hexfloat << x;
    }
}

TYPED_TEST(storage, points_half_way_between_neighbours_go_to_the_even_one) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const rounding expected(format<TypeParam>::exponent_bits);
  const std::uint32_t patterns = ((1u << format<TypeParam>::exponent_bits) - 1)
                                 << (15 - format<TypeParam>::exponent_bits);
  for (std::uint32_t bits = 0; bits + 1 < patterns; ++bits) {
    const double middle =
        (value(bits, format<TypeParam>::exponent_bits) + value(bits + 1, format<TypeParam>::exponent_bits)) / 2;
    const auto x = static_cast<float>(middle);
    ASSERT_EQ(TypeParam(x).bits, bits + bits % 2) << x;
    ASSERT_EQ(TypeParam(std::nextafter(x, 0.0f)).bits, expected(std::nextafter(x, 0.0f)));
    ASSERT_EQ(TypeParam(std::nextafter(x, infinity)).bits, expected(std::nextafter(x, infinity)));
    ASSERT_EQ(TypeParam(-x).bits, (bits + bits % 2) | 0x8000u);
  }
}

TEST(storage_types, special_values) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(f16(1.0f).bits, 0x3c00);
  EXPECT_EQ(f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-24f).bits, 0x0001);
  EXPECT_EQ(f16(0x1p-25f).bits, 0x0000);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(bf16(-infinity).bits, 0xff80);
  EXPECT_EQ(f16(-infinity).bits, 0xfc00);
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
  EXPECT_EQ(f16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(nan))) && std::isnan(static_cast<float>(f16(nan))));
  // A NaN whose payload lies in the bits that are cut off stays a NaN.
  const auto small_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(small_payload))) &&
              std::isnan(static_cast<float>(f16(small_payload))));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
