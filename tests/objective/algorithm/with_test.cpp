// Variations of named algorithms are the compositions that one would write by hand.
#include "rlcore/objective/algorithm/algorithm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "objective/algorithm/describe.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/objective/algorithm/gspo.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/tensor/span.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;
using rlcore_test::describe;

TEST(variation, adds_terms_and_keeps_their_coefficients) {
  const auto a = with_entropy(with_kl(paper::dapo(), 0.25, k2{}), 0.5);
  EXPECT_EQ(describe(a).objective, "sum{sum{ppo_clip, scaled{k2}}, scaled{token_entropy}}");
  EXPECT_EQ(coefficient_at<1>(a.objective), 0.25);
  EXPECT_EQ(coefficient_at<2>(a.objective), -0.5);
  EXPECT_EQ(piece_at<0>(a.objective).high, 0.28);
}

TEST(variation, weighs_the_policy_and_nothing_else) {
  EXPECT_EQ(describe(with_weight(paper::dapo())).objective, "weighted{ppo_clip}");
  EXPECT_EQ(describe(with_weight(with_entropy(paper::grpo({.kl = 0.5}), 1))).objective,
            "sum{sum{weighted{ppo_clip}, sum{scaled{k3}}}, sum{scaled{token_entropy}}}");
  EXPECT_EQ(coefficient_at<1>(with_weight(paper::grpo({.kl = 0.5})).objective), 0.5);
}

TEST(variation, takes_the_ratio_to_the_rollout) {
  const auto a = with_rollout_ratio(paper::gspo());
  EXPECT_TRUE(contains(gathers_of<decltype(a.objective)>::score::reads, field::rollout_logp));
  EXPECT_FALSE(contains(gathers_of<decltype(a.objective)>::score::reads, field::old_logp));
}

TEST(variation, exchanges_parts) {
  EXPECT_EQ(describe(with_aggregation(paper::grpo(), token_mean{})).aggregation, "token_mean");
  EXPECT_EQ(describe(with_advantage(paper::grpo(), no_advantage{})).advantage, "no_advantage");
}

TEST(variation, puts_the_kl_into_the_reward) {
  struct penalty {
    double coefficient;
  };
  const auto a = with_kl_in_reward(paper::dapo(), penalty{0.25});
  EXPECT_EQ(a.advantage.penalty.coefficient, 0.25);
  EXPECT_TRUE(a.advantage.kl_in_reward);
  std::vector<double> reward{1, 0}, advantage(2);
  a.advantage(reward, 2, advantage);  // still the estimator
  EXPECT_GT(advantage[0], 0);
}

}  // namespace RLCORE_TEST_ID
