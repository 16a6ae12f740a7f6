#include "rlcore/core/elementary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numbers>
#include <random>

namespace RLCORE_TEST_ID {
namespace {

namespace el = rlcore::elementary;

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
constexpr double least = std::numeric_limits<double>::denorm_min(), most = std::numeric_limits<double>::max();

/// The distance of y from the true value in units in the last place of a double there. The C library's long double
/// has at least 11 bits more.
double ulps(double y, long double truth) {
  const auto nearest = static_cast<double>(truth);
  if (std::isnan(nearest) || std::isnan(y)) return std::isnan(nearest) == std::isnan(y) ? 0 : inf;
  if (std::isinf(nearest) || std::isinf(y)) return nearest == y ? 0 : inf;
  int e = 0;
  std::frexp(nearest, &e);
  return static_cast<double>(std::fabs(static_cast<long double>(y) - truth) /
                             std::ldexp(1.0L, std::max(nearest == 0 ? -1021 : e, -1021) - 53));
}

/// Random arguments per check; fewer where long double is computed by software.
constexpr int points = std::numeric_limits<long double>::digits == 64 ? 100000 : 3000;

bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

struct function {
  double (*ours)(double);
  long double (*true_value)(long double);
};
const function exp_{el::exp, std::exp}, exp2_{el::exp2, std::exp2}, log2_{el::log2, std::log2},
    expm1_{el::expm1, std::expm1}, log_{el::log, std::log}, log1p_{el::log1p, std::log1p}, sin_{el::sin, std::sin},
    cos_{el::cos, std::cos}, tanh_{el::tanh, std::tanh};

/// The worst of `points` arguments evenly from [low, high], and of as many whose logarithms are even.
double worst(function f, double low, double high) {
  std::mt19937_64 bits(7);
  double most_ulps = 0;
  std::uniform_real_distribution<double> evenly(low, high), exponent(-1074, std::log2(std::max(-low, high)));
  for (int i = 0; i < points; ++i) {
    for (double x : {evenly(bits), (bits() & 1) != 0 ? std::exp2(exponent(bits)) : -std::exp2(exponent(bits))}) {
      if (x < low || x > high) continue;
      most_ulps = std::max(most_ulps, ulps(f.ours(x), f.true_value(static_cast<long double>(x))));
    }
  }
  return most_ulps;
}

TEST(elementary, is_off_by_little_more_than_half_a_unit) {
  EXPECT_LE(worst(exp_, -746, 710), 0.51);
  EXPECT_LE(worst(exp_, -1, 1), 0.51);
  EXPECT_LE(worst(exp2_, -1080, 1025), 0.51);
  EXPECT_LE(worst(exp2_, -1, 1), 0.51);
  EXPECT_LE(worst(expm1_, -40, 710), 0.54);
  EXPECT_LE(worst(expm1_, -0.1, 0.1), 0.54);
  EXPECT_LE(worst(log_, 0, most), 0.51);
  EXPECT_LE(worst(log_, 0, 3), 0.51);
  EXPECT_LE(worst(log_, 0.99, 1.01), 0.51);
  EXPECT_LE(worst(log2_, 0, most), 0.51);
  EXPECT_LE(worst(log2_, 0.99, 1.01), 0.51);
  EXPECT_LE(worst(log1p_, -1, most), 0.51);
  EXPECT_LE(worst(log1p_, -1, 3), 0.51);
  EXPECT_LE(worst(log1p_, -0.01, 0.01), 0.51);
  for (const function& f : {sin_, cos_}) {
    EXPECT_LE(worst(f, -1, 1), 0.51);
    EXPECT_LE(worst(f, -1e6, 1e6), 0.51);
  }
  EXPECT_LE(worst(tanh_, -20, 20), 0.53);
  EXPECT_LE(worst(tanh_, -0.1, 0.1), 0.53);
}

TEST(elementary, pow_is_off_by_little_more_than_half_a_unit) {
  std::mt19937_64 bits(5);
  std::uniform_real_distribution<double> log_of_result(-720, 720), exponent(-300, 300), near(-1, 1);
  double most_ulps = 0;
  for (int i = 0; i < points; ++i) {
    for (double x : {std::exp2(exponent(bits)), 1 + near(bits) * std::exp2(-(i % 40)), least * (1 + i)}) {
      const double y = log_of_result(bits) / std::log(x);
      most_ulps = std::max(most_ulps, ulps(el::pow(x, y), std::pow(static_cast<long double>(x), y)));
    }
  }
  EXPECT_LE(most_ulps, 0.53);
}

TEST(elementary, angles_next_to_a_multiple_of_a_right_angle_keep_every_digit) {
  // No double lies nearer to such a multiple than 0x1.6ac5b262ca1ffp+849; its cosine is from 400 decimal digits of pi.
  for (const double x : {std::numbers::pi, std::numbers::pi / 2, 710.0, 6381956970095103.0 * 2, 0x1p30, 0x1p62}) {
    EXPECT_LE(ulps(el::sin(x), std::sin(static_cast<long double>(x))), 0.51) << x;
    EXPECT_LE(ulps(el::cos(x), std::cos(static_cast<long double>(x))), 0.51) << x;
  }
  EXPECT_EQ(el::cos(0x1.6ac5b262ca1ffp+849), -0x1.14ae72e6ba22fp-61);
  EXPECT_EQ(el::sin(0x1.6ac5b262ca1ffp+849), 1.0);
}

TEST(elementary, exact_values_are_exact) {
  EXPECT_EQ(el::exp(0.0), 1.0);
  EXPECT_EQ(el::log(1.0), 0.0);
  EXPECT_EQ(el::cos(0.0), 1.0);
  for (int k = -1074; k <= 1023; ++k) {
    const double power = std::ldexp(1.0, k);
    ASSERT_EQ(el::pow(2.0, static_cast<double>(k)), power);
    ASSERT_EQ(el::exp2(static_cast<double>(k)), power);
    ASSERT_EQ(el::log2(power), k);
  }
  std::mt19937_64 bits(3);
  for (int i = 0; i < 10000; ++i) {
    const auto x = std::bit_cast<double>(bits());
    if (std::isnan(x)) continue;
    ASSERT_EQ(el::pow(x, 1.0), x);
    ASSERT_EQ(el::pow(x, 0.0), 1.0);
    ASSERT_EQ(el::pow(1.0, x), 1.0);
    ASSERT_LE(ulps(el::pow(x, -1.0), 1.0L / static_cast<long double>(x)), 0.51) << x;
    const auto n = static_cast<double>(bits() >> 38);
    ASSERT_EQ(el::pow(n, 2.0), n * n);
    ASSERT_EQ(el::pow(n * n, 0.5), n);
  }
  for (double n = 1; n <= 208063; n += 977) ASSERT_EQ(el::pow(n, 3.0), n * n * n);
}

TEST(elementary, odd_functions_are_odd_and_small_arguments_keep_their_digits) {
  std::mt19937_64 bits(11);
  for (int i = 0; i < 10000; ++i) {
    const auto x = std::bit_cast<double>(bits());
    ASSERT_TRUE(same(el::sin(-x), -el::sin(x)));
    ASSERT_TRUE(same(el::tanh(-x), -el::tanh(x)));
    ASSERT_TRUE(same(el::cos(-x), el::cos(x)));
    const double small = std::ldexp(1 + static_cast<double>(i) * 0x1p-14, -1000 + i / 11);  // below 2^-90
    for (const function& f : {expm1_, log1p_, sin_, tanh_}) ASSERT_EQ(f.ours(small), small);
  }
}

// Annex F of the C standard: what every C library does.
TEST(elementary, edges_are_those_of_the_c_library) {
  const double edges[] = {0.0,
                          -0.0,
                          1.0,
                          -1.0,
                          inf,
                          -inf,
                          nan,
                          least,
                          -least,
                          most,
                          -most,
                          709.8,
                          710,
                          -745.2,
                          -746,
                          -750,
                          -0.5,
                          0x1p-1022,
                          0x1p-54,
                          -0x1p-54,
                          1e300,
                          -1e-300,
                          std::nextafter(-1.0, 0.0),
                          -2.0};
  for (const double x : edges) {
    for (const function& f : {exp_, exp2_, expm1_, log_, log2_, log1p_, sin_, cos_, tanh_}) {
      const auto want = static_cast<double>(f.true_value(static_cast<long double>(x)));
      if (std::isfinite(want) && want != 0) {
        EXPECT_LE(ulps(f.ours(x), f.true_value(static_cast<long double>(x))), 0.54) << x;
      } else {
        EXPECT_TRUE(same(f.ours(x), want)) << x << ": " << f.ours(x) << ", " << want;
      }
    }
  }
  const double powers[] = {0.0,     -0.0,    1.0,  -1.0,   2.0,    -2.0,       3.0,      -3.0,  0.5,
                           -0.5,    inf,     -inf, nan,    least,  -least,     most,     -most, 1023.0,
                           -1074.0, -1075.0, 1.5,  0x1p52, 0x1p53, 0x1p52 + 1, 0x1p-1040};
  for (const double x : powers) {
    for (const double y : powers) {
      EXPECT_TRUE(same(el::pow(x, y), std::pow(x, y)))
          << x << '^' << y << ": " << el::pow(x, y) << ", " << std::pow(x, y);
    }
  }
}

TEST(elementary, a_float_is_rounded_once_from_double) {
  std::mt19937 bits(2);
  for (int i = 0; i < 10000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    if (std::isnan(x)) continue;
    ASSERT_EQ(el::exp(x), static_cast<float>(el::exp(static_cast<double>(x))));
    ASSERT_EQ(el::cos(std::fmod(x, 1e30f)), static_cast<float>(el::cos(static_cast<double>(std::fmod(x, 1e30f)))));
  }
}

// Neither the rounding mode nor the compiler's own arithmetic at compile time has a say.
TEST(elementary, modes_of_the_processor_change_nothing) {
  static_assert(el::exp(0.0) == 1.0 && el::pow(3.0, 4.0) == 81.0 && el::log(1.0) == 0.0 && el::tanh(0.0) == 0.0);
  constexpr double at_compile_time[] = {el::exp(1.25),    el::expm1(-0.01), el::log(0.3),    el::log1p(1e-9),
                                        el::pow(3.3, -7), el::sin(1e9),     el::cos(-1e300), el::tanh(0.7)};
  for (const int mode : {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    volatile double x[] = {1.25, -0.01, 0.3, 1e-9, 3.3, 1e9, -1e300, 0.7};
    const int before = std::fegetround();
    std::fesetround(mode);
    const double now[] = {el::exp(x[0]),     el::expm1(x[1]), el::log(x[2]), el::log1p(x[3]),
                          el::pow(x[4], -7), el::sin(x[5]),   el::cos(x[6]), el::tanh(x[7])};
    std::fesetround(before);
    for (std::size_t i = 0; i < std::size(now); ++i) EXPECT_EQ(now[i], at_compile_time[i]) << i;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
