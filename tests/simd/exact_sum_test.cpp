#include "rlcore/simd/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "rlcore/simd/pack.hpp"

namespace RLCORE_TEST_ID {

using rlcore::exact_sum;

namespace {

exact_sum of(const std::vector<double>& values) {
  exact_sum s;
  for (const double x : values) s.add(x);
  return s;
}

constexpr double tiny = std::numeric_limits<double>::denorm_min(), huge = std::numeric_limits<double>::max();

TEST(exact_sum, rounds_the_true_sum_once) {
  EXPECT_EQ(of({}).value(), 0.0);
  EXPECT_EQ(of({1e300, 1, -1e300}).value(), 1.0);
  EXPECT_EQ(of({1, 0x1p-53}).value(), 1.0);                      // half way: to even
  EXPECT_EQ(of({1, 0x1p-53, tiny}).value(), 1.0 + 0x1p-52);      // just above half way
  EXPECT_EQ(of({1 + 0x1p-52, 0x1p-53}).value(), 1.0 + 0x1p-51);  // half way: to even, upwards
  EXPECT_EQ(of({-1, -0x1p-53, -tiny}).value(), -1.0 - 0x1p-52);
  EXPECT_EQ(of({tiny, tiny, tiny}).value(), 3 * tiny);  // subnormal results are exact
  EXPECT_EQ(of({0x1p-1022, -tiny}).value(), 0x1p-1022 - tiny);
  EXPECT_EQ(of({huge, -huge, huge}).value(), huge);
  EXPECT_EQ(of({huge, huge}).value(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(of({huge, huge, -huge, -huge, tiny}).value(), tiny);  // only the sum overflows, not its parts
  EXPECT_EQ(of(std::vector<double>(10, 0.1)).value(), 1.0);       // what math.fsum returns
}

TEST(exact_sum, propagates_infinities_and_nan) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(of({1, infinity}).value(), infinity);
  EXPECT_EQ(of({-infinity, 3}).value(), -infinity);
  EXPECT_TRUE(std::isnan(of({infinity, -infinity}).value()));
  EXPECT_TRUE(std::isnan(of({1, std::nan("")}).value()));
}

TEST(exact_sum, knows_no_order) {
  std::mt19937_64 random(2);
  std::vector<double> values;
  for (int k = 0; k < 3000; ++k)
    values.push_back(
        std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random), static_cast<int>(random() % 200) - 100));
  const double want = of(values).value();
  for (int k = 0; k < 20; ++k) {
    std::shuffle(values.begin(), values.end(), random);
    exact_sum parts, part;
    for (const double x : values) {
      part.add(x);
      if (random() % 50 == 0) parts += part, part = {};
    }
    part += parts;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(part.value()), std::bit_cast<std::uint64_t>(want));
  }
  long double reference = 0;  // 64 bits of mantissa are nearly enough for a check by other means
  for (const double x : values) reference += static_cast<long double>(x);
  EXPECT_NEAR(want, static_cast<double>(reference), 1e-12 * std::abs(want));
}

TEST(wide_sum, adds_lanes_in_double) {
  rlcore::wide_sum<float> s;
  for (int k = 0; k < 1000; ++k) s.add(rlcore::pack<float>(k == 0 ? 0x1p30f : 1.0f));
  const double lanes = static_cast<double>(rlcore::pack<float>::lanes);
  EXPECT_EQ(s.total(), lanes * (0x1p30 + 999.0));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
