#include "rlcore/parallel/balance.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "rlcore/core/random.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using partition = std::vector<std::vector<std::uint32_t>>;

std::vector<double> sums(const std::vector<double>& cost, const partition& parts) {
  std::vector<double> out;
  for (const auto& p : parts)
    out.push_back(std::accumulate(p.begin(), p.end(), 0.0, [&](double s, std::uint32_t i) { return s + cost[i]; }));
  return out;
}
double heaviest(const std::vector<double>& cost, const partition& parts) {
  const auto s = sums(cost, parts);
  return *std::max_element(s.begin(), s.end());
}
std::vector<double> sorted(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x;
}

/// The smallest heaviest part of all partitions; counts differ by one at most if `equal`.
double best(const std::vector<double>& cost, std::size_t parts, bool equal) {
  std::vector<std::size_t> of(cost.size(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (;;) {
    std::vector<double> s(parts, 0);
    std::vector<std::size_t> n(parts, 0);
    for (std::size_t i = 0; i < cost.size(); ++i) s[of[i]] += cost[i], ++n[of[i]];
    if (!equal || *std::max_element(n.begin(), n.end()) - *std::min_element(n.begin(), n.end()) <= 1)
      least = std::min(least, *std::max_element(s.begin(), s.end()));
    std::size_t i = 0;
    while (i < of.size() && ++of[i] == parts) of[i++] = 0;
    if (i == of.size()) return least;
  }
}

std::vector<double> lengths(std::uint32_t seed, std::size_t n, std::uint32_t below) {
  const rlcore::random_key key{seed};
  std::vector<double> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(1.0 + key.below(below, static_cast<std::uint32_t>(i)));
  return out;
}

// The example of Karmarkar and Karp's differencing in every text book: 8, 7, 6, 5, 4 leaves a difference of 2 (optimal:
// 0).
TEST(balance, differs_as_the_published_examples_do) {
  const std::vector<double> two{8, 7, 6, 5, 4};
  EXPECT_EQ(sorted(sums(two, balance(two, 2))), (std::vector<double>{14, 16}));
  // Three sets (Korf 1998): 4, 5, 6, 7, 8 -> 8, 11, 11.
  const std::vector<double> three{4, 5, 6, 7, 8};
  EXPECT_EQ(sorted(sums(three, balance(three, 3))), (std::vector<double>{8, 11, 11}));
}

TEST(balance, finds_the_optimum_where_items_pair_up) {
  const std::vector<double> cost{1, 9, 2, 8, 3, 7, 4, 6};
  for (const bool equal : {false, true})
    EXPECT_EQ(sums(cost, balance(cost, 4, equal)), (std::vector<double>(4, 10))) << equal;
  const std::vector<double> one_heavy{100, 1, 1, 1, 1};
  EXPECT_EQ(sorted(sums(one_heavy, balance(one_heavy, 2))), (std::vector<double>{4, 100}));
  EXPECT_EQ(sorted(sums(one_heavy, balance(one_heavy, 2, true))), (std::vector<double>{3, 101}));
}

// Over all partitions of small cases, with a bound on each and on the mean.
TEST(balance, stays_close_to_brute_force) {
  for (const bool equal : {false, true})
    for (const std::size_t parts : {2u, 3u, 4u}) {
      double excess = 0;
      const int cases = 30;
      for (int seed = 0; seed < cases; ++seed) {
        const auto cost = lengths(static_cast<std::uint32_t>(seed), 8, 100);
        const double ratio = heaviest(cost, balance(cost, parts, equal)) / best(cost, parts, equal);
        EXPECT_GE(ratio, 1 - 1e-12);
        EXPECT_LE(ratio, 4.0 / 3) << "seed " << seed << ", " << parts << " parts, equal " << equal;
        excess += (ratio - 1) / cases;
      }
      EXPECT_LE(excess, 0.06) << parts << " parts, equal " << equal;
    }
}

TEST(balance, every_item_is_in_one_part_and_the_order_is_fixed) {
  for (const std::size_t n : {0u, 1u, 2u, 7u, 64u, 1000u})
    for (const std::size_t parts : {1u, 2u, 3u, 8u, 100u})
      for (const bool equal : {false, true}) {
        const auto cost = lengths(5, n, 20);  // with many ties
        const partition p = balance(cost, parts, equal);
        EXPECT_EQ(p, balance(cost, parts, equal));
        ASSERT_EQ(p.size(), parts);
        std::vector<std::uint32_t> all, firsts;
        std::size_t most = 0, least = n;
        for (const auto& part : p) {
          EXPECT_TRUE(std::is_sorted(part.begin(), part.end()));
          all.insert(all.end(), part.begin(), part.end());
          firsts.push_back(part.empty() ? UINT32_MAX : part.front());
          most = std::max(most, part.size()), least = std::min(least, part.size());
        }
        EXPECT_TRUE(std::is_sorted(firsts.begin(), firsts.end()));
        std::sort(all.begin(), all.end());
        std::vector<std::uint32_t> expected(n);
        std::iota(expected.begin(), expected.end(), 0u);
        EXPECT_EQ(all, expected);
        if (equal) {  // verl deals a batch to ranks so, and asks for a multiple of them
          EXPECT_EQ(most - least, n % parts == 0 ? 0u : 1u);
        } else if (n >= parts) {
          EXPECT_GE(least, 1u);
        }
      }
}

TEST(balance, sums_depend_on_the_costs_and_not_on_their_order_or_unit) {
  const auto cost = lengths(3, 96, 4096);
  auto turned = cost, doubled = cost;
  std::rotate(turned.begin(), turned.begin() + 37, turned.end());
  for (double& c : doubled) c *= 2;
  for (const bool equal : {false, true}) {
    const partition p = balance(cost, 8, equal);
    EXPECT_EQ(sorted(sums(cost, p)), sorted(sums(turned, balance(turned, 8, equal))));
    EXPECT_EQ(p, balance(doubled, 8, equal));
  }
}

// A step of reinforcement learning: 1024 responses of very different lengths for 64 ranks, 16 each.
TEST(balance, a_batch_of_responses_is_even_to_a_thousandth) {
  const rlcore::random_key key{11};
  std::vector<double> cost;
  for (std::uint32_t i = 0; i < 1024; ++i)
    cost.push_back(sequence_cost(
        65024, std::clamp<std::int64_t>(static_cast<std::int64_t>(std::exp(7 + 0.7 * key.normal(i))), 64, 4096)));
  const double mean = std::accumulate(cost.begin(), cost.end(), 0.0) / 64;
  double as_they_come = 0;
  for (std::size_t r = 0; r < 64; ++r)
    as_they_come =
        std::max(as_they_come, std::accumulate(cost.begin() + static_cast<std::ptrdiff_t>(16 * r),
                                               cost.begin() + static_cast<std::ptrdiff_t>(16 * r + 16), 0.0));
  EXPECT_GT(as_they_come, 1.3 * mean);
  EXPECT_LT(heaviest(cost, balance(cost, 64, true)), 1.001 * mean);
  EXPECT_LT(heaviest(cost, balance(cost, 64)), 1.001 * mean);
}

TEST(balance, refuses_what_is_no_cost) {
  const std::vector<double> negative{1, -1}, nan{std::nan("")}, infinite{1, HUGE_VAL}, fine{1};
  for (const auto& bad : {negative, nan, infinite}) EXPECT_THROW(balance(bad, 2), std::invalid_argument);
  EXPECT_THROW(balance(fine, 0), std::invalid_argument);
}

// Numbers of the founding document for public configurations; verl takes 24576 for all of them.
TEST(sequence_cost, constant_of_a_model) {
  EXPECT_EQ(cost_constant({896, 14, 2, 64, 4864}), 16640);          // Qwen2.5-0.5B: 16.6k
  EXPECT_NEAR(cost_constant({3584, 28, 4, 128, 18944}), 65e3, 50);  // Qwen2.5-7B: 65k
  EXPECT_NEAR(cost_constant({5120, 40, 8, 128, 27648}), 95e3, 500);
  EXPECT_NEAR(cost_constant({4096, 32, 8, 128, 12288}), 47e3, 500);          // Qwen3-8B
  EXPECT_NEAR(cost_constant({2048, 32, 4, 128, 768, 128, 8}), 13.8e3, 100);  // Qwen3-30B-A3B
  EXPECT_NEAR(cost_constant({4096, 64, 4, 128, 1536, 128, 8}), 27e3, 500);   // Qwen3-235B-A22B
}

TEST(sequence_cost, is_what_a_layer_computes) {
  const layer_sizes s{896, 14, 2, 64, 4864};
  const double c = cost_constant(s);
  for (const std::int64_t length : {1, 100, 16640}) {
    const auto n = static_cast<double>(length);
    const double operations = 2 * active_weights(s) * n + 4 * 14 * 64 * n * n / 2;  // causal: half of all pairs
    EXPECT_DOUBLE_EQ(operations / sequence_cost(c, length), 2 * 14 * 64);
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
