#include "rlcore/data/blend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace RLCORE_TEST_ID {
namespace {

using rlcore::data::epoch_order;

TEST(sampler, is_a_permutation_that_depends_on_seed_and_epoch) {
  std::vector<std::uint32_t> all(1000);
  std::iota(all.begin(), all.end(), 0u);
  EXPECT_EQ(epoch_order(1000, 1, 0, false), all);
  std::set<std::vector<std::uint32_t>> seen{all};
  for (std::uint64_t seed : {0u, 1u, 2u}) {
    for (std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 32}) {
      auto order = epoch_order(1000, seed, epoch, true);
      EXPECT_EQ(order, epoch_order(1000, seed, epoch, true));
      EXPECT_TRUE(seen.insert(order).second);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, all);
    }
  }
  EXPECT_TRUE(epoch_order(0, 1, 1, true).empty());
  EXPECT_EQ(epoch_order(1, 1, 1, true), std::vector<std::uint32_t>{0});
}

// Every order of four rows is equally likely: chi-square with 23 degrees of freedom is below 49.7 with p = 0.999.
TEST(sampler, is_uniform) {
  std::vector<double> count(256);
  constexpr int rounds = 24000;
  for (int epoch = 0; epoch < rounds; ++epoch) {
    const auto o = epoch_order(4, 5, static_cast<std::uint64_t>(epoch), true);
    ++count[o[0] + 4 * o[1] + 16 * o[2] + 64 * o[3]];
  }
  double chi_square = 0;
  int orders = 0;
  for (const double c : count)
    if (c > 0) {
      ++orders;
      chi_square += (c - rounds / 24.0) * (c - rounds / 24.0) / (rounds / 24.0);
    }
  EXPECT_EQ(orders, 24);
  EXPECT_LT(chi_square, 49.7);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
