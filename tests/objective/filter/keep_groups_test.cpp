// Dynamic sampling against verl and OpenRLHF, and rows that are left out.
#include "rlcore/objective/filter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/selection/replay.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::read_golden;
using rows = std::vector<std::int64_t>;

namespace {

TEST(keep_groups, equals_verl_and_openrlhf_under_their_rules) {
  const auto g = read_golden("divergence.json")["filter"];
  for (std::size_t k = 0; k < g["groups"].size(); ++k) {
    const std::vector<double> rewards = g["groups"][k];
    const auto size = std::ssize(rewards);
    EXPECT_EQ((keep_groups{numpy_deviation_above_zero{}}(rewards, size).kept == 1), g["verl"][k].get<bool>()) << k;
    EXPECT_EQ((keep_groups{mean_between{}}(rewards, size).kept == 1), g["openrlhf"][k].get<bool>()) << k;
    EXPECT_EQ(detail::numpy_deviation(std::span<const double>(rewards)), g["std64"][k].get<double>()) << k;
    const std::vector<float> narrow(rewards.begin(), rewards.end());
    EXPECT_EQ(detail::numpy_deviation(std::span<const float>(narrow)), g["std32"][k].get<float>()) << k;
  }
}

// huggingface/trl#7068, #6365, #3857, verl-project/verl#7792, verl-project/verl-recipe#125: equal rewards that do not
// look equal after rounding. They are compared as they are.
TEST(keep_groups, equal_rewards_are_equal) {
  for (const double value : {0.1, 0.3, 0.7, 0.85, -0.6, 1e-300, 1e300, 0.0})
    for (const std::int64_t size : {2, 3, 6, 7, 8, 9, 12, 24, 130}) {
      const std::vector<double> rewards(static_cast<std::size_t>(size), value);
      const auto result = keep_groups<>{}(rewards, size);
      EXPECT_EQ(result.kept, 0) << value << " " << size;
      EXPECT_EQ(result.equal, 1);
    }
  const std::vector<double> three(3, 0.1);
  EXPECT_EQ((keep_groups{numpy_deviation_above_zero{}}(three, 3).kept), 1);  // what verl does
  const std::vector<double> barely{0.1, 0.1, std::nextafter(0.1, 1.0)};
  EXPECT_EQ(keep_groups<>{}(barely, 3).kept, 1);
}

// OpenRLHF/OpenRLHF#1270, #1272: a range of means keeps groups without signal and drops groups with one.
TEST(keep_groups, means_say_nothing_about_signal) {
  const std::vector<double> rewards{0.5, 0.5, 0.5, -1, -1, 1};
  EXPECT_EQ((keep_groups{mean_between{}}(rewards, 3).rows), (rows{0, 1, 2}));
  EXPECT_EQ(keep_groups<>{}(rewards, 3).rows, (rows{3, 4, 5}));
}

TEST(keep_groups, counts_what_it_drops) {
  const std::vector<float> rewards{1, 0, 0, 0, 1, NAN, NAN, NAN, 1, 0, NAN, NAN};
  const auto result = keep_groups<>{}(rewards, 2);
  EXPECT_EQ(result.rows, (rows{0, 1, 8, 9}));
  EXPECT_EQ(result.groups, 6);
  EXPECT_EQ(result.kept, 2);
  EXPECT_EQ(result.equal, 1);
  EXPECT_EQ(result.single, 1);
  EXPECT_EQ(result.unscored, 2);
  EXPECT_EQ(result.unscored_rows, 5);
  EXPECT_EQ((keep_groups{rewards_differ{.keep_single = true}}(rewards, 2).rows), (rows{0, 1, 4, 8, 9}));
}

TEST(keep_groups, groups_may_be_anywhere) {
  const std::vector<double> rewards{1, 1, 0, 1, 0.5, 1};
  const std::vector<std::int32_t> prompt{7, -2, 7, -2, 7, -2};
  EXPECT_EQ(keep_groups<>{}(rewards, prompt).rows, (rows{0, 2, 4}));
  EXPECT_EQ(keep_groups<>{}(rewards, prompt).groups, 2);
}

// TRL's A2PO drops a prompt if the rewards of all its samples are zero, and keeps one that is always solved.
TEST(keep_groups, any_positive_drops_prompts_that_nobody_solved) {
  const std::vector<double> rewards{0, 0, 0, 1, 1, 1, -1, 0, NAN, 0, NAN, 1};
  const auto result = keep_groups{any_positive{}}(rewards, 2);
  EXPECT_EQ(result.rows, (rows{2, 3, 4, 5, 11}));
  EXPECT_EQ(result.kept, 3);
}

TEST(keep_groups, takes_ones_own_rule) {
  const auto any_right = [](auto r) { return *std::max_element(r.begin(), r.end()) == 1; };
  const std::vector<double> rewards{0, 0.5, 1, 1};
  EXPECT_EQ((keep_groups{any_right}(rewards, 2).rows), (rows{2, 3}));
}

TEST(keep_groups, empty_and_misfitting) {
  const std::vector<double> none, three(3);
  const std::vector<std::int32_t> two(2);
  EXPECT_EQ(keep_groups<>{}(none, 4).groups, 0);
  EXPECT_THROW(keep_groups<>{}(three, 2), std::invalid_argument);
  EXPECT_THROW(keep_groups<>{}(three, 0), std::invalid_argument);
  EXPECT_THROW(keep_groups<>{}(three, two), std::invalid_argument);
}

// verl-project/verl#6375, #6452, #6362: rows that were rejected still moved the baseline of their group.
TEST(mark_unscored, rejected_rows_do_not_move_the_baseline) {
  std::vector<double> rewards{1, 0, 50, 0}, advantages(4);
  const std::vector<std::uint8_t> valid{1, 1, 0, 1};
  EXPECT_EQ(mark_unscored(valid, rewards), 1);
  group_relative{.normalize_by_std = false}(rewards, 4, advantages);
  EXPECT_NEAR(advantages[0], 2.0 / 3, 1e-15);
  EXPECT_NEAR(advantages[1], -1.0 / 3, 1e-15);
  EXPECT_EQ(advantages[2], 0);
  EXPECT_EQ(keep_groups<>{}(rewards, 4).rows, (rows{0, 1, 3}));
  EXPECT_THROW(mark_unscored(std::vector<std::uint8_t>{1}, rewards), std::invalid_argument);
}

TEST(mask_truncated, leaves_the_baseline_alone) {  // TRL: the loss mask is 0, the reward still counts
  const std::vector<double> rewards{1, 0};
  const std::vector<std::uint8_t> truncated{0, 1};
  std::vector<std::int32_t> lengths{5, 9};
  EXPECT_EQ(mask_truncated(truncated, lengths), 1);
  EXPECT_EQ(lengths, (std::vector<std::int32_t>{5, 0}));
  std::vector<double> advantages(2);
  group_relative{.normalize_by_std = false}(rewards, 2, advantages);
  EXPECT_EQ(advantages[0], 0.5);
  std::vector<std::int32_t> three(3);
  EXPECT_THROW(mask_truncated(truncated, three), std::invalid_argument);
}

TEST(replay_priority, equals_trls_formula) {
  const auto g = read_golden("divergence.json")["replay"];
  for (std::size_t k = 0; k < g["priority"].size(); ++k) {
    const std::vector<double> reward = g["reward"][k], advantage = g["advantage"][k];
    EXPECT_NEAR(replay_priority(std::span(advantage), std::span(reward)), g["priority"][k].get<double>(), 1e-14);
  }
  const std::vector<double> equal(3, 0.1), any{1, 2, 3};
  EXPECT_EQ(replay_priority(std::span(any), std::span(equal)), 0);
  EXPECT_THROW(replay_priority(std::span(any), std::span(equal).first(2)), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
