// Shaping of rewards against the functions of verl, OpenRLHF and TRL.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "objective/golden_case.hpp"
#include "rlcore/objective/reward_shaping.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::read_golden;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(soft_overlong, equals_verl_openrlhf_and_trl) {
  const auto g = read_golden("divergence.json")["overlong"];
  const soft_overlong uncapped{.max_length = 100, .buffer = 20, .factor = 1.5, .limit = infinity};
  const soft_overlong capped{.max_length = 100, .buffer = 20, .factor = 1.5};
  const soft_overlong plain{.max_length = 100, .buffer = 20}, sudden{.max_length = 100, .buffer = 0};
  for (std::size_t k = 0; k < g["length"].size(); ++k) {
    const response r{.reward = 0.25, .length = g["length"][k]};
    EXPECT_NEAR(uncapped(r), g["verl"][k].get<double>(), 1e-6) << r.length;  // verl keeps rewards in float
    EXPECT_NEAR(capped(r), g["openrlhf"][k].get<double>(), 1e-15) << r.length;
    EXPECT_NEAR(plain.penalty(r.length), g["trl"][k].get<double>(), 1e-15) << r.length;
    EXPECT_EQ(sudden.penalty(r.length), g["trl_no_buffer"][k].get<double>()) << r.length;
  }
  EXPECT_THROW((soft_overlong{.max_length = 10, .buffer = 11}.penalty(1)), std::invalid_argument);
  EXPECT_THROW((soft_overlong{.max_length = 10, .buffer = -1}.penalty(1)), std::invalid_argument);
}

TEST(soft_overlong, without_buffer_needs_a_finite_limit) {  // it would be -infinity, or NaN for a factor of 0
  for (const double limit : {infinity, std::nan("")})
    EXPECT_THROW((soft_overlong{.max_length = 10, .buffer = 0, .limit = limit}.penalty(5)), std::invalid_argument);
  EXPECT_EQ((soft_overlong{.max_length = 10, .buffer = 5, .limit = infinity}.penalty(20)), -3);
}

TEST(truncated, equals_openrlhf) {
  const auto g = read_golden("divergence.json")["stop_properly"];
  for (std::size_t k = 0; k < g["reward"].size(); ++k) {
    const response r{.reward = g["reward"][k], .truncated = g["truncated"][k] == 1};
    EXPECT_EQ(scale_truncated{0.3}(r), g["scale"][k].get<double>()) << k;
    EXPECT_EQ(replace_truncated{-0.5}(r), g["replace"][k].get<double>()) << k;
    EXPECT_EQ(missing_eos_penalty{0.5}(r), r.reward - (r.truncated ? 0.5 : 0.0)) << k;  // TRL: scores[no_eos] -= p
  }
}

TEST(cosine_length, equals_trl) {
  const auto g = read_golden("divergence.json")["cosine"];
  const cosine_length cosine{.max_length = 100};
  for (std::size_t k = 0; k < g["length"].size(); ++k) {
    const std::int64_t length = g["length"][k];
    EXPECT_NEAR(cosine(true, length), g["right"][k].get<double>(), 1e-15);
    EXPECT_NEAR(cosine(false, length), g["wrong"][k].get<double>(), 1e-15);
    EXPECT_EQ(cosine(response{.reward = 1, .length = length}), cosine(true, length));
    EXPECT_EQ(cosine(response{.reward = 0, .length = length}), cosine(false, length));
  }
  EXPECT_THROW(cosine_length{}(true, 5), std::invalid_argument);
}

TEST(repetition_penalty, equals_trl) {
  const auto g = read_golden("divergence.json")["repetition"];
  for (std::size_t k = 0; k < g["ids"].size(); ++k) {
    const std::vector<std::int32_t> ids = g["ids"][k];
    const std::span<const std::int32_t> s(ids);
    EXPECT_EQ((repetition_penalty{1}(s)), g["n1"][k].get<double>()) << k;
    EXPECT_EQ((repetition_penalty{2, -0.5}(s)), g["n2"][k].get<double>()) << k;
    EXPECT_EQ(repetition_penalty{}(s), g["n3"][k].get<double>()) << k;
  }
  const std::vector<std::int32_t> ids{1};
  EXPECT_THROW((repetition_penalty{0}(std::span<const std::int32_t>(ids))), std::invalid_argument);
  EXPECT_THROW((repetition_penalty{2, 1.0}(std::span<const std::int32_t>(ids))), std::invalid_argument);
}

TEST(length_relative, by_hand) {  // lambda is 1/2, 1/4, -1/2
  const std::vector<std::int64_t> length{100, 200, 500}, same{7, 7};
  const std::vector<std::uint8_t> right{1, 1, 1}, wrong{0, 0, 0}, two{1, 0};
  std::vector<double> bonus(3);
  length_relative{}(std::span(length), std::span(right), std::span(bonus));
  EXPECT_EQ(bonus, (std::vector<double>{0.5, 0.25, -0.5}));
  length_relative{}(std::span(length), std::span(wrong), std::span(bonus));
  EXPECT_EQ(bonus, (std::vector<double>{0, 0, -0.5}));
  EXPECT_THROW(length_relative{}(std::span(same), std::span(two), std::span(bonus)), std::invalid_argument);
  bonus.assign(2, 9);
  length_relative{}(std::span(same), std::span(two), std::span(bonus));
  EXPECT_EQ(bonus, (std::vector<double>{0, 0}));
}

TEST(target_length, by_hand) {
  const target_length rule{.rate = 0.25, .slack = 0.5};
  EXPECT_EQ(rule.exact(true, 10, 12), 0.5);
  EXPECT_EQ(rule.exact(false, 12, 10), -0.5);
  EXPECT_EQ(rule.at_most(true, 10, 11), 0.25);
  EXPECT_EQ(rule.at_most(true, 10, 99), 0);
  EXPECT_EQ(rule.at_most(true, 10, 1), 1);
  EXPECT_EQ(rule.at_most(false, 10, 1), 0);
}

TEST(reward_shaping, applies_one_after_the_other) {
  const response r{.reward = 1, .length = 95, .truncated = true};
  const soft_overlong overlong{.max_length = 100, .buffer = 10};
  const reward_shaping penalised_then_scaled{overlong, scale_truncated{0.5}};
  const reward_shaping scaled_then_penalised{scale_truncated{0.5}, overlong};
  EXPECT_EQ(penalised_then_scaled(r), 0.25);
  EXPECT_EQ(scaled_then_penalised(r), 0);
  EXPECT_EQ((reward_shaping{replace_truncated{3}, penalised_then_scaled, missing_eos_penalty{2}}(r)), -0.75);
}

TEST(reward_shaping, leaves_unscored_rows_unscored) {
  const response r{.reward = std::nan(""), .length = 99, .truncated = true};
  const soft_overlong overlong{.max_length = 100, .buffer = 10};
  EXPECT_TRUE(std::isnan(overlong(r)));
  EXPECT_TRUE(std::isnan(scale_truncated{}(r)));
  EXPECT_TRUE(std::isnan(replace_truncated{}(r)));
  EXPECT_TRUE(std::isnan(missing_eos_penalty{}(r)));
  EXPECT_TRUE(std::isnan(cosine_length{.max_length = 9}(r)));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
