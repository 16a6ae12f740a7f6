// The tree over leaves against its definition, shards, fixed point, and who computes which leaf.
#include "rlcore/parallel/reduction/reduction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/reduction/piece_sum.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::parallel;
using text = std::optional<std::string>;

/// The definition: the left part is the largest power of two that is not all; absent parts add nothing.
text by_definition(const std::vector<text>& leaves, std::size_t first, std::size_t last) {
  if (last - first == 1) return leaves[first];
  std::size_t left = 1;
  while (2 * left < last - first) left *= 2;
  const text a = by_definition(leaves, first, first + left), b = by_definition(leaves, first + left, last);
  if (a && b) return "(" + *a + "+" + *b + ")";
  return a ? a : b;
}

void join(std::string& left, std::string&& right) { left = "(" + left + "+" + right + ")"; }

TEST(reduction_tree, is_the_tree_by_definition_in_whatever_order_leaves_come) {
  std::mt19937 random(3);
  for (std::size_t n = 1; n <= 17; ++n)
    for (int turn = 0; turn < 8; ++turn) {
      std::vector<text> leaves;
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < n; ++i) {
        leaves.push_back(turn % 4 == 3 && random() % 3 == 0 ? text() : std::to_string(i));
        order.push_back(i);
      }
      if (turn > 0) std::shuffle(order.begin(), order.end(), random);
      reduction_tree<std::string> tree(n);
      std::size_t most = 0;
      for (const std::size_t i : order) {
        tree.push_leaf(i, leaves[i], join);
        most = std::max(most, tree.entries().size());
      }
      ASSERT_TRUE(tree.complete()) << n;
      EXPECT_EQ(tree.root(), by_definition(leaves, 0, n));
      if (turn == 0) {
        EXPECT_LE(most, static_cast<std::size_t>(std::log2(static_cast<double>(n))) + 1) << n;
      }
    }
}

TEST(reduction_tree, neighbouring_leaves_make_few_nodes_that_fit_together) {
  for (std::size_t n = 1; n <= 16; ++n)
    for (std::size_t ranks = 1; ranks <= 9; ++ranks) {
      std::vector<text> leaves;
      for (std::size_t i = 0; i < n; ++i) leaves.emplace_back(std::to_string(i));
      reduction_tree<std::string> whole(n);
      for (std::size_t r = ranks; r-- > 0;) {
        reduction_tree<std::string> own(n);
        for (std::size_t i = r * n / ranks; i < (r + 1) * n / ranks; ++i) own.push_leaf(i, leaves[i], join);
        if (n % ranks == 0 && (n & (n - 1)) == 0) {
          EXPECT_EQ(own.entries().size(), 1u) << n << " leaves on " << ranks;
        }
        for (auto& e : own.entries()) whole.push(e.node, e.value, join);
      }
      ASSERT_TRUE(whole.complete());
      EXPECT_EQ(whole.root(), by_definition(leaves, 0, n)) << n << " leaves on " << ranks;
    }
}

TEST(shard_layout, gives_every_value_to_one_rank_in_whole_blocks) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const shard_layout all({5000, 5001, 9000, 9100}, ranks);
    std::vector<int> owners(9100, 0);
    for (std::size_t r = 0; r < all.ranks(); ++r) {
      std::size_t held = 0;
      for (std::size_t u = 0; u < all.units(); ++u) {
        const value_range part = all.part(u, r), unit = all.unit(u);
        EXPECT_EQ(all.place(u, r), held);
        EXPECT_EQ(all.counts(u)[r], part.size());
        if (part.size() > 0) {
          EXPECT_EQ((part.first - unit.first) % shard_layout::block, 0u);
          EXPECT_TRUE(part.last == unit.last || (part.last - unit.first) % shard_layout::block == 0);
        }
        for (std::size_t i = part.first; i < part.last; ++i) ++owners[i];
        held += part.size();
      }
      EXPECT_EQ(all.shard_size(r), held);
    }
    EXPECT_EQ(std::set<int>(owners.begin(), owners.end()), std::set<int>{1}) << ranks;
  }
}

/// Two vectors of 5000 = 1000 + 2 x 2000 and 2 x 2000 values: blocks of the latter are those of the former's end.
TEST(shard_layout, blocks_begin_anew) {
  const std::vector<std::size_t> begins{1000, 3000}, same{0, 2000};
  const auto blocks = [](const shard_layout& all) {
    std::vector<std::size_t> sizes, owned;
    for (std::size_t r = 0; r < all.ranks(); ++r) {
      all.for_runs(0, r, [&](const value_range& run) {
        for (std::size_t at = run.first; at < run.last; at += shard_layout::block)
          sizes.push_back(std::min(run.last, at + shard_layout::block) - at);
      });
      owned.push_back(all.blocks_of(0, r));
    }
    EXPECT_EQ(std::accumulate(owned.begin(), owned.end(), std::size_t{0}), sizes.size());
    return sizes;
  };
  for (const int ranks : {1, 2, 3, 7}) {
    EXPECT_EQ(blocks({{5000}, ranks, begins}), (std::vector<std::size_t>{1000, 1024, 976, 1024, 976})) << ranks;
    EXPECT_EQ(blocks({{4000}, ranks, same}), (std::vector<std::size_t>{1024, 976, 1024, 976})) << ranks;
  }
  EXPECT_EQ(blocks({{4096}, 2, std::vector<std::size_t>{1024, 2048}}), std::vector<std::size_t>(4, 1024));
}

TEST(fixed_point, sums_are_exact_in_any_order_and_what_does_not_fit_spoils_them) {
  const double limit = fixed_point::limit(8);
  EXPECT_EQ(fixed_point::to_float(fixed_point::of(1.5f, limit)), 1.5f);
  EXPECT_EQ(fixed_point::of(0x1p-44f, limit), 1);
  EXPECT_EQ(fixed_point::of(-0x1.8p-44f, limit), -2);  // to even
  EXPECT_EQ(fixed_point::of(0x1p15f, limit), std::int64_t{1} << 59);
  std::int64_t sum = 0;
  for (int i = 0; i < 8; ++i) sum = fixed_point::sum(sum, fixed_point::of(0x1p15f, limit));
  EXPECT_EQ(fixed_point::to_float(sum), 0x1p18f);
  for (const float bad : {std::nextafter(0x1p15f, 0x1p16f), -0x1p20f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    const auto x = fixed_point::of(bad, limit);
    EXPECT_EQ(x, fixed_point::invalid);
    EXPECT_TRUE(std::isnan(fixed_point::to_float(
        fixed_point::sum(fixed_point::sum(7, x), static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x))))));
  }
}

parallel_settings settings(int zero, int leaves, int context = 1, int shards = 0) {
  parallel_settings s;
  s.zero = zero, s.leaves = leaves, s.context = context, s.shard_ranks = shards;
  return s;
}

TEST(leaf_schedule, every_leaf_is_computed_once_and_ranks_of_a_round_are_neighbours) {
  for (const int leaves : {1, 5, 8})
    for (const int ranks : {1, 2, 3, 4, 6, 8, 12})
      for (const int context : {1, 2})
        for (const int shards : {0, 2})
          for (int zero = 0; zero < 4; ++zero) {
            if (ranks % context != 0 || (shards != 0 && ranks % shards != 0)) continue;
            const parallel_settings s = settings(zero, leaves, context, shards);
            const leaf_schedule plan(mesh::of(s, 0, ranks), s);
            std::multiset<std::size_t> seen;
            for (std::size_t round = 0; round < plan.rounds(); ++round)
              for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
                if (plan.number(r, round) != leaf_schedule::none) seen.insert(plan.number(r, round));
            ASSERT_EQ(seen.size(), plan.sums());
            for (std::size_t n = 0; n < plan.sums(); ++n) EXPECT_EQ(seen.count(n), 1u);
          }
}

TEST(mesh, places_tensor_parallel_ranks_side_by_side_and_refuses_what_does_not_fit) {
  parallel_settings s;
  s.context = 2, s.tensor = 3, s.expert = 4;
  const mesh m = mesh::of(s, 17, 24);
  EXPECT_EQ(m.data_size, 4);
  EXPECT_EQ(m.tensor, 2);
  EXPECT_EQ(m.context, 1);
  EXPECT_EQ(m.data, 2);
  EXPECT_EQ(m.sum(), 5);
  EXPECT_THROW(mesh::of(s, 0, 23), rlcore::config_error);
  s.data = 3;
  EXPECT_THROW(mesh::of(s, 0, 24), rlcore::config_error);
  s = {};
  s.shard_ranks = 3;
  EXPECT_THROW(mesh::of(s, 0, 8), rlcore::config_error);
  s = {};
  s.zero = 4;
  EXPECT_THROW(mesh::of(s, 0, 8), rlcore::config_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
