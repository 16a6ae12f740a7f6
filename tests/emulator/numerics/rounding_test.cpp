// The NPU's roundings against formulas in double, which has every value and every midpoint exactly.
#include "rlcore/emulator/numerics/rounding.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "rlcore/core/dtype.hpp"
#include "rlcore/core/random.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::ascend;
using namespace rlcore::ascend::emulated;

constexpr std::array all_roundings{rounding::nearest_even, rounding::nearest_away, rounding::toward_zero,
                                   rounding::nearest_zero};

/// A binary format by its definition: `fraction` explicit bits, exponents from `lowest` to `highest`, subnormals.
struct binary_format {
  int fraction, lowest, highest;
  double largest() const { return std::ldexp(2 - std::ldexp(1, -fraction), highest); }
};
constexpr binary_format bfloat16_format{7, -126, 127}, float16_format{10, -14, 15}, hf32_format{11, -126, 127};

/// x in the format, by arithmetic on whole units in the last place.
double rounded(double x, const binary_format& f, rounding how) {
  if (x == 0 || std::isinf(x)) return x;
  const double a = std::fabs(x);
  const int exponent = std::max(std::ilogb(a), f.lowest);
  const double unit = std::ldexp(1, exponent - f.fraction), whole = std::floor(a / unit), rest = a / unit - whole;
  double n = whole;
  if (how != rounding::toward_zero) {
    if (rest > 0.5) n += 1;
    if (rest == 0.5 && (how == rounding::nearest_away || (how == rounding::nearest_even && std::fmod(whole, 2) == 1)))
      n += 1;
  }
  double result = n * unit;
  if (result > f.largest()) result = std::numeric_limits<double>::infinity();
  return std::copysign(result, x);
}

float value_of_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
/// IEEE 754: (-1)^s 2^(e - 15) 1.f, subnormal 2^-14 0.f.
float value_of_float16(std::uint16_t bits) {
  const int e = (bits >> 10) & 31, m = bits & 1023;
  double v = e == 0 ? std::ldexp(m, -24) : std::ldexp(1024 + m, e - 25);
  if (e == 31) v = m == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>((bits & 0x8000) != 0 ? -v : v);
}

/// Every value of the 16-bit format, the midpoint to its neighbour, and the floats around the midpoint.
template <class ValueOf, class Check>
void for_every_tie(ValueOf value_of, Check check) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float v = value_of(static_cast<std::uint16_t>(bits));
    if (std::isnan(v)) continue;
    check(v);
    const float next = value_of(static_cast<std::uint16_t>(bits + 1));
    if ((bits & 0x7fff) == 0x7fff || std::isnan(next) || std::isinf(v) || std::isinf(next)) continue;
    const auto middle = static_cast<float>((static_cast<double>(v) + next) / 2);
    check(middle);
    check(std::nextafter(middle, 0.0f));
    check(std::nextafter(middle, std::copysign(std::numeric_limits<float>::infinity(), v)));
  }
}

TEST(rounding, bfloat16_of_every_value_and_every_tie) {
  for (const auto how : all_roundings)
    for_every_tie(value_of_bfloat16, [how](float x) {
      const double expected = rounded(x, bfloat16_format, how);
      const float found = value_of_bfloat16(to_bfloat16(x, how));
      ASSERT_EQ(static_cast<double>(found), expected) << x << " rounding " << static_cast<int>(how);
      ASSERT_EQ(std::signbit(found), std::signbit(x));
      ASSERT_EQ(stored_as(x, data_type::bfloat16, how), found);
    });
}

TEST(rounding, float16_of_every_value_and_every_tie) {
  for (const auto how : all_roundings)
    for_every_tie(value_of_float16, [how](float x) {
      const double expected = rounded(x, float16_format, how);
      const float found = value_of_float16(to_float16(x, how));
      ASSERT_EQ(static_cast<double>(found), expected) << x << " rounding " << static_cast<int>(how);
      ASSERT_EQ(std::signbit(found), std::signbit(x));
      ASSERT_EQ(stored_as(x, data_type::float16, how), found);
    });
}

TEST(rounding, of_floats_of_every_exponent) {
  const random_key random{1};
  for (std::uint32_t i = 0; i < 400'000; ++i) {
    const float x = std::bit_cast<float>(random.words(i)[0]);
    if (std::isnan(x)) continue;
    for (const auto how : all_roundings) {
      const bool cut = how == rounding::toward_zero && std::isfinite(x);
      double half = rounded(x, float16_format, how);
      if (cut && std::isinf(half)) half = std::copysign(65504.0, x);
      ASSERT_EQ(static_cast<double>(value_of_float16(to_float16(x, how))), half) << x;
      ASSERT_EQ(static_cast<double>(value_of_bfloat16(to_bfloat16(x, how))), rounded(x, bfloat16_format, how)) << x;
      ASSERT_EQ(static_cast<double>(to_hf32(x, how)), rounded(x, hf32_format, how)) << x;
    }
    ASSERT_EQ(to_bfloat16(x), bf16(x).bits);
    ASSERT_EQ(to_float16(x), f16(x).bits);
  }
}

TEST(rounding, hf32_keeps_eleven_bits_and_breaks_ties_toward_zero) {
  for (std::uint32_t upper = 0; upper < (1u << 20); upper += 7) {
    const auto bits = upper << 12;
    if (((bits >> 23) & 255u) == 255u) continue;
    const float kept = std::bit_cast<float>(bits), tie = std::bit_cast<float>(bits | 0x800u),
                above = std::bit_cast<float>(bits | 0x801u);
    ASSERT_EQ(to_hf32(kept), kept);
    ASSERT_EQ(to_hf32(tie), kept);
    ASSERT_EQ(static_cast<double>(to_hf32(above)), rounded(above, hf32_format, rounding::nearest_zero));
    ASSERT_NE(to_hf32(above), kept);
    ASSERT_EQ(static_cast<double>(to_hf32(tie, rounding::nearest_even)),
              rounded(tie, hf32_format, rounding::nearest_even));
    ASSERT_NE(to_hf32(tie, rounding::nearest_away), kept);
  }
}

TEST(rounding, ties_of_a_coarse_grid) {  // 1 + 1/256 lies between two neighbours of 8 significant bits, 1.0 being even
  const float tie = 1 + 0x1p-8f;
  EXPECT_EQ(stored_as(tie, data_type::bfloat16, rounding::nearest_even), 1.0f);
  EXPECT_EQ(stored_as(tie, data_type::bfloat16, rounding::nearest_away), 1 + 0x1p-7f);
  EXPECT_EQ(stored_as(tie, data_type::bfloat16, rounding::nearest_zero), 1.0f);
  EXPECT_EQ(stored_as(tie, data_type::bfloat16, rounding::toward_zero), 1.0f);
  EXPECT_EQ(stored_as(-tie, data_type::bfloat16, rounding::nearest_away), -1 - 0x1p-7f);
  EXPECT_EQ(stored_as(tie, data_type::float32, rounding::nearest_away), tie);
}

TEST(rounding, overflow_becomes_infinite_or_saturates) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const auto half = [](float x, overflow_mode mode) {
    return value_of_float16(to_float16(x, rounding::nearest_even, mode));
  };
  const auto brain = [](float x, overflow_mode mode) {
    return value_of_bfloat16(to_bfloat16(x, rounding::nearest_even, mode));
  };
  EXPECT_EQ(half(65519.99f, overflow_mode::infnan), 65504.0f);
  EXPECT_EQ(half(65520.0f, overflow_mode::infnan), infinity);
  EXPECT_EQ(half(-1e9f, overflow_mode::infnan), -infinity);
  EXPECT_TRUE(std::isnan(half(nan, overflow_mode::infnan)));
  EXPECT_EQ(half(65520.0f, overflow_mode::saturation), 65504.0f);
  EXPECT_EQ(half(-infinity, overflow_mode::saturation), -65504.0f);
  EXPECT_EQ(half(nan, overflow_mode::saturation), 0.0f);
  const float largest = value_of_bfloat16(0x7f7f), beyond = std::numeric_limits<float>::max();
  EXPECT_EQ(brain(beyond, overflow_mode::infnan), infinity);
  EXPECT_TRUE(std::isnan(brain(nan, overflow_mode::infnan)));
  EXPECT_EQ(brain(beyond, overflow_mode::saturation), largest);
  EXPECT_EQ(brain(-infinity, overflow_mode::saturation), -largest);
  EXPECT_EQ(brain(nan, overflow_mode::saturation), 0.0f);
  EXPECT_TRUE(std::isnan(to_hf32(nan)));
  EXPECT_TRUE(std::isnan(to_hf32(std::bit_cast<float>(0x7f800001u))));
  EXPECT_TRUE(std::isnan(value_of_bfloat16(to_bfloat16(std::bit_cast<float>(0x7f800001u), rounding::toward_zero))));
}

TEST(rounding, many_values_as_one) {
  const random_key random{2};
  std::vector<float> values(3000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::bit_cast<float>(random.words(static_cast<std::uint32_t>(i))[0] & ~0x3f800000u);
  for (const auto type : {data_type::float32, data_type::bfloat16, data_type::float16})
    for (const auto how : all_roundings)
      for (const auto mode : {overflow_mode::infnan, overflow_mode::saturation}) {
        auto copy = values;
        round_values(copy, type, how, mode);
        for (std::size_t i = 0; i < values.size(); ++i)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(copy[i]),
                    std::bit_cast<std::uint32_t>(stored_as(values[i], type, how, mode)));
      }
}

TEST(rounding, to_odd_makes_two_roundings_one) {
  const random_key random{3};
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    // A 16-bit value's midpoint plus less than a float can hold: rounding to float first would make it a tie.
    const auto w = random.words(i);
    const float base = value_of_bfloat16(static_cast<std::uint16_t>((w[0] & 0x7fu) | (0x3f80u + ((w[1] % 9) << 7))));
    const double unit = std::ldexp(1, std::ilogb(base) - 7);
    const double x = base + unit / 2 + (w[2] % 2 == 0 ? 1 : -1) * unit * std::ldexp(1, -40);
    for (const auto how : {rounding::nearest_even, rounding::nearest_away, rounding::nearest_zero})
      ASSERT_EQ(static_cast<double>(value_of_bfloat16(to_bfloat16(to_odd(x), how))), rounded(x, bfloat16_format, how));
    const double y = random.normal(i, 1);
    ASSERT_EQ(static_cast<double>(value_of_float16(to_float16(to_odd(y)))),
              rounded(y, float16_format, rounding::nearest_even));
  }
  EXPECT_EQ(to_odd(0.25), 0.25f);
  EXPECT_EQ(to_odd(-0.0), -0.0f);
  EXPECT_EQ(to_odd(1e300), std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
