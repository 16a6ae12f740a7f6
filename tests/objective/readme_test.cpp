// The README's example, with numbers: what it prints there must compile and be right.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rlcore/rlcore.hpp"

#if __has_include(<Eigen/Core>)
#include "rlcore/tensor/eigen.hpp"
#endif

namespace RLCORE_TEST_ID {

#if __has_include(<Eigen/Core>)
TEST(readme, grpo_on_eigen) {
  constexpr int responses = 8, tokens = 5;
  const Eigen::ArrayXXf logp = Eigen::ArrayXXf::Constant(responses, tokens, -1.0f), old_logp = logp;
  const Eigen::ArrayXXf ref_logp = logp - std::log(2.0f), response_mask = Eigen::ArrayXXf::Ones(responses, tokens);
  Eigen::ArrayXXf dlogp(responses, tokens);
  Eigen::ArrayXf rewards = Eigen::ArrayXf::Zero(responses), advantage(responses);
  rewards(0) = 1;

  const auto grpo = rlcore::paper::grpo();  // or dapo(), gspo(), cispo(), ...; or verl::grpo(), trl::grpo()
  grpo.advantage(rewards, rlcore::groups_of(8), advantage);

  rlcore::token_batch<float> batch{
      .logp = logp, .old_logp = old_logp, .ref_logp = ref_logp, .advantage = advantage, .mask = response_mask};
  auto report = evaluate(grpo, batch, {.logp = dlogp});

  // Every ratio is 1, so the policy term is minus the mean advantage, 0; k3 = 1/2 - 1 + ln 2 with slope 1/2 everywhere.
  // One reward of 1 among 8: mean 1/8, deviation sqrt(1/8), advantage 7 / sqrt(8) and -1 / sqrt(8).
  const double kl = 0.04;
  EXPECT_NEAR(report.loss(), kl * (std::log(2.0) - 0.5), 1e-7);
  EXPECT_NEAR(dlogp(0, 3), (-7 / std::sqrt(8.0) + kl / 2) / 40, 1e-6);
  EXPECT_NEAR(dlogp(5, 0), (1 / std::sqrt(8.0) + kl / 2) / 40, 1e-6);
}
#endif

}  // namespace RLCORE_TEST_ID
