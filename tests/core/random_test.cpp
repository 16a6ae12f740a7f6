#include "rlcore/core/random.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::philox;
using rlcore::random_key;
using words = std::array<std::uint32_t, 4>;

// kat_vectors of the Random123 distribution, philox4x32 with 10 rounds.
TEST(philox, known_answers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
  static_assert(philox(0, {0, 0, 0, 0})[0] == 0x6627e8d5);
}

TEST(random_key, coordinates_are_the_counter) {
  EXPECT_EQ(random_key{0x299f31d0a4093822}.words(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
            (words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(random_key, uniform_uses_the_upper_53_bits) {
  // From the first known answer: 0x6627e8d5e169c58d / 2^64, cut to 53 bits.
  EXPECT_EQ(random_key{}.uniform(0), static_cast<double>(0x6627e8d5e169c58dULL >> 11) / 9007199254740992.0);
  for (std::uint32_t i = 0; i < 10000; ++i) {
    const double u = random_key{3}.uniform(i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
  }
}

constexpr std::uint32_t samples = 200000;

TEST(random_key, uniform_has_the_moments_of_the_uniform_distribution) {
  double sum = 0, squares = 0, neighbours = 0, before = 0;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const double u = random_key{11}.uniform(i, 1, 2) - 0.5;
    sum += u, squares += u * u, neighbours += u * before;
    before = u;
  }
  // Five standard deviations of the mean of n values: 5 sqrt(variance / n).
  EXPECT_NEAR(sum / samples, 0, 5 * std::sqrt(1.0 / 12 / samples));
  EXPECT_NEAR(squares / samples, 1.0 / 12, 5 * std::sqrt(1.0 / 180 / samples));
  EXPECT_NEAR(neighbours / samples, 0, 5 / 12.0 / std::sqrt(samples));
}

TEST(random_key, normal_has_the_moments_of_the_normal_distribution) {
  double sum = 0, squares = 0, cubes = 0, fourths = 0;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const double x = random_key{5}.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x, squares += x * x, cubes += x * x * x, fourths += x * x * x * x;
  }
  EXPECT_NEAR(sum / samples, 0, 5 * std::sqrt(1.0 / samples));
  EXPECT_NEAR(squares / samples, 1, 5 * std::sqrt(2.0 / samples));
  EXPECT_NEAR(cubes / samples, 0, 5 * std::sqrt(15.0 / samples));
  EXPECT_NEAR(fourths / samples, 3, 5 * std::sqrt(96.0 / samples));
}

TEST(random_key, below_stays_below_and_reaches_everything) {
  std::array<int, 7> seen{};
  for (std::uint32_t i = 0; i < 70000; ++i) {
    const std::uint32_t x = random_key{9}.below(7, i);
    ASSERT_LT(x, 7u);
    ++seen[x];
  }
  for (const int n : seen) EXPECT_NEAR(n, 10000, 5 * std::sqrt(10000.0 * 6 / 7));
  EXPECT_EQ(random_key{9}.below(1, 5), 0u);
}

TEST(random_key, children_share_no_number) {
  std::set<std::uint64_t> seeds{7};
  for (std::uint32_t purpose = 0; purpose < 1000; ++purpose) seeds.insert(random_key{7}.child(purpose).seed);
  for (std::uint32_t purpose = 0; purpose < 1000; ++purpose) seeds.insert(random_key{8}.child(purpose).seed);
  EXPECT_EQ(seeds.size(), 2001u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
