#include "rlcore/objective/advantage/token_rewards.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rlcore/objective/controller.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

TEST(kl_in_reward, spreads_the_penalty_and_puts_the_score_last) {
  const std::vector<float> old_logp{-1.0f, -2.0f, -0.5f}, ref_logp{-1.5f, -1.0f, -0.5f};
  std::vector<float> reward(3);
  const auto r = kl_in_reward{.coefficient = 0.1}(2.0, old_logp, ref_logp, reward);
  EXPECT_FLOAT_EQ(reward[0], -0.05f);
  EXPECT_FLOAT_EQ(reward[1], 0.1f);
  EXPECT_FLOAT_EQ(reward[2], 2.0f);
  EXPECT_NEAR(r.kl, -0.5, 1e-12);
  EXPECT_NEAR(r.mean_kl, -0.5 / 3, 1e-12);
  EXPECT_NEAR(r.reward, 2.05, 1e-12);
}
TEST(kl_in_reward, has_verls_estimators) {
  const std::vector<float> low{-6.0f}, high{-1.0f};
  EXPECT_EQ((kl_in_reward{.kind = kl_kind::k3}(0, low, high).kl), 10.0);  // clamped
  EXPECT_NEAR((kl_in_reward{.kind = kl_kind::k3}(0, high, low).kl), 4.0067379, 1e-7);
  EXPECT_EQ((kl_in_reward{.kind = kl_kind::abs_kl}(0, low, high).kl), 5.0);
  EXPECT_EQ((kl_in_reward{.kind = kl_kind::k2}(0, low, high).kl), 12.5);
}
TEST(kl_in_reward, an_empty_response_keeps_its_score) {
  const auto r = kl_in_reward{}(0.5, {}, {});
  EXPECT_EQ(r.reward, 0.5);
  EXPECT_EQ(r.mean_kl, 0.0);
}
TEST(kl_in_reward, refuses_rows_of_different_length) {
  const std::vector<float> two(2), three(3);
  EXPECT_THROW(kl_in_reward{}(0, two, three), std::invalid_argument);
}

TEST(adaptive_kl, follows_the_published_formula) {
  const adaptive_kl start{.coefficient = 0.2, .target = 6, .horizon = 10000};
  EXPECT_NEAR(start.updated(6.6, 1000).coefficient, 0.2 * (1 + 0.1 * 0.1), 1e-15);
  EXPECT_NEAR(start.updated(60, 1000).coefficient, 0.2 * (1 + 0.2 * 0.1), 1e-15);  // error limited to 0.2
  EXPECT_NEAR(start.updated(0, 1000).coefficient, 0.2 * (1 - 0.2 * 0.1), 1e-15);
  EXPECT_EQ(start.coefficient, 0.2);  // pure
}
TEST(adaptive_kl, never_turns_negative) {  // beta (1 - 0.2 n / horizon) does, for n > 5 horizons
  adaptive_kl c{.coefficient = 1, .target = 1, .horizon = 10};
  for (int k = 0; k < 100; ++k) c = c.updated(0, 1000);
  EXPECT_GT(c.coefficient, 0);
}
TEST(fixed_kl, stays) { EXPECT_EQ(fixed_kl{0.3}.updated(100, 100).coefficient, 0.3); }

}  // namespace
}  // namespace RLCORE_TEST_ID
