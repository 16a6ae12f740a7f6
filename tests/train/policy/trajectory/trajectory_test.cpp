// How trajectories are packed, cut into micro-batches and shuffled.
#include "rlcore/train/policy/trajectory/trajectory.hpp"
#include "rlcore/train/policy/trajectory/packed_trajectories.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/train/policy/update.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::trajectory;
using pairs = std::vector<std::pair<std::size_t, std::size_t>>;

trajectory make(std::vector<std::int32_t> tokens, std::int32_t prompt_length) {
  trajectory t;
  t.tokens = std::move(tokens);
  t.prompt_length = prompt_length;
  return t;
}

TEST(policy_trajectory, response_is_what_follows_the_prompt) {
  const trajectory t = make({5, 6, 7, 8, 9}, 2);
  EXPECT_EQ(t.response_length(), 3);
  EXPECT_EQ(std::vector<std::int32_t>(t.response().begin(), t.response().end()), (std::vector<std::int32_t>{7, 8, 9}));
}

TEST(policy_trajectory, packing_predicts_every_response_token_from_the_row_before_it) {
  train::packed_trajectories packed;
  packed.push_back(make({5, 6, 7, 8, 9}, 2));
  packed.push_back(make({1, 2}, 1));
  EXPECT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed.tokens.values, (std::vector<std::int32_t>{5, 6, 7, 8, 1}));  // the last token predicts nothing
  EXPECT_EQ(packed.tokens.offsets, (std::vector<std::int32_t>{0, 4, 5}));
  EXPECT_EQ(packed.targets.row, (std::vector<std::int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(packed.targets.token, (std::vector<std::int32_t>{7, 8, 9, 2}));
  EXPECT_EQ(packed.offsets, (std::vector<std::int32_t>{0, 3, 4}));
  packed.clear();
  EXPECT_EQ(packed.size(), 0u);
  packed.push_back(make({1, 2}, 1));
  EXPECT_EQ(packed.targets.row, (std::vector<std::int32_t>{0}));
  EXPECT_EQ(packed.offsets, (std::vector<std::int32_t>{0, 1}));
}

pairs cuts(const std::vector<std::size_t>& lengths, std::int64_t rows, std::int64_t tokens) {
  pairs seen;
  train::for_each_group(
      lengths.size(), rows, tokens, [&](std::size_t i) { return lengths[i]; },
      [&](std::size_t a, std::size_t b) { seen.emplace_back(a, b); });
  return seen;
}

TEST(policy_trajectory, micro_batches_keep_both_limits) {
  const std::vector<std::size_t> lengths{4, 4, 9, 2, 3, 5};
  EXPECT_EQ(cuts(lengths, 0, 0), (pairs{{0, 6}}));
  EXPECT_EQ(cuts(lengths, 4, 0), (pairs{{0, 4}, {4, 6}}));
  EXPECT_EQ(cuts(lengths, 100, 0), (pairs{{0, 6}}));
  EXPECT_EQ(cuts(lengths, 0, 8), (pairs{{0, 2}, {2, 3}, {3, 5}, {5, 6}}));  // the long one goes alone
  EXPECT_EQ(cuts(lengths, 0, 10), (pairs{{0, 2}, {2, 3}, {3, 6}}));
  EXPECT_EQ(cuts(lengths, 2, 10), (pairs{{0, 2}, {2, 3}, {3, 5}, {5, 6}}));
  EXPECT_EQ(cuts(lengths, 1, 1), (pairs{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(cuts({}, 2, 10), pairs{});
}

TEST(policy_trajectory, shuffle_is_a_permutation_addressed_by_key_and_epoch) {
  std::vector<trajectory> all(50);
  std::vector<const trajectory*> order;
  for (const trajectory& t : all) order.push_back(&t);
  const auto shuffled = [&](std::uint64_t seed, std::int64_t epoch) {
    auto rows = order;
    train::shuffle_rows(rows, random_key{seed}, epoch);
    return rows;
  };
  const auto once = shuffled(3, 0);
  EXPECT_NE(once, order);
  EXPECT_TRUE(std::is_permutation(once.begin(), once.end(), order.begin()));
  EXPECT_EQ(once, shuffled(3, 0));
  EXPECT_NE(once, shuffled(3, 1));
  EXPECT_NE(once, shuffled(4, 0));
  // Every place is equally likely for the first row: 4000 draws into 4 places, 5 standard deviations.
  std::vector<int> place(4);
  for (std::int64_t epoch = 0; epoch < 4000; ++epoch) {
    std::vector<const trajectory*> rows(order.begin(), order.begin() + 4);
    train::shuffle_rows(rows, random_key{7}, epoch);
    ++place[static_cast<std::size_t>(std::find(rows.begin(), rows.end(), order[0]) - rows.begin())];
  }
  for (const int n : place) EXPECT_NEAR(n, 1000, 5 * 27.4);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
