// Settings that make no sense are refused by name where an algorithm is made; those of papers and systems are not.
#include "rlcore/core/settings.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "rlcore/losses.hpp"

namespace RLCORE_TEST_ID {

using namespace rlcore;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

/// What making the algorithm says, without "rlcore: "; "" if it is accepted.
template <class Make>
std::string refusal(Make make) {
  try {
    [[maybe_unused]] const auto made = make();
    return "";
  } catch (const std::invalid_argument& e) {
    const std::string text = e.what();
    return text.starts_with("rlcore: ") ? text.substr(8) : "not one of ours: " + text;
  }
}
#define EXPECT_REFUSED(made, words) EXPECT_EQ(refusal([] { return made; }), words)
#define EXPECT_ACCEPTED(made) EXPECT_EQ(refusal([] { return made; }), "")

TEST(settings, of_clips) {
  EXPECT_REFUSED((paper::grpo({.clip_low = -0.2, .clip_high = -1})),
                 "grpo: clip_low = -0.2, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::grpo({.clip_high = -1})), "grpo: clip_high = -1, expected a number of at least 0");
  EXPECT_REFUSED((paper::grpo({.clip_low = 1.5})), "grpo: clip_low = 1.5, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::grpo({.clip_high = nan})), "grpo: clip_high = nan, expected a number of at least 0");
  EXPECT_REFUSED((paper::dapo({.clip_low = -1})), "dapo: clip_low = -1, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::dr_grpo({.clip_low = -1})), "dr_grpo: clip_low = -1, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::gdpo({.clip_high = -0.1})), "gdpo: clip_high = -0.1, expected a number of at least 0");
  EXPECT_REFUSED((paper::gmpo({.clip_low = -0.4})), "gmpo: clip_low = -0.4, expected a number of at least 0");
  EXPECT_REFUSED((paper::gspo({.clip_low = -3e-4})), "gspo: clip_low = -3e-04, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::gspo_token({.clip_high = nan})),
                 "gspo_token: clip_high = nan, expected a number of at least 0");
  EXPECT_REFUSED((paper::luspo({.clip_low = 2})), "luspo: clip_low = 2, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::ppo({.clip_low = -0.2})), "ppo: clip_low = -0.2, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::reinforce_plus_plus({.clip_high = -0.2})),
                 "reinforce_plus_plus: clip_high = -0.2, expected a number of at least 0");
  EXPECT_REFUSED((paper::reinforce_plus_plus_baseline({.clip_low = -0.2})),
                 "reinforce_plus_plus_baseline: clip_low = -0.2, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::clip_cov({.clip_low = -0.2})), "clip_cov: clip_low = -0.2, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::cispo({ratio_bound{.high = 0}})), "cispo: highest_ratio = 0, expected a number above 0");
  EXPECT_REFUSED((paper::cispo({ratio_bound{.high = 1, .low = 2}})),
                 "cispo: lowest_ratio = 2, expected a number of at most highest_ratio = 1");
  EXPECT_REFUSED((paper::dppo_tv({.low = -1})), "dppo_tv: low = -1, expected a number of at least 0");
  EXPECT_REFUSED((paper::dppo_kl({.high = nan})), "dppo_kl: high = nan, expected a number of at least 0");
}

TEST(settings, of_critics_and_estimators) {
  EXPECT_REFUSED((paper::ppo({.gamma = 1.5})), "ppo: gamma = 1.5, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::ppo({.lambda = -0.95})), "ppo: lambda = -0.95, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::ppo_critic({.range = -0.2})), "ppo_critic: range = -0.2, expected a number of at least 0");
  EXPECT_REFUSED((verl::ppo_critic({.range = nan})), "clipped_value: range = nan, expected a number of at least 0");
  EXPECT_REFUSED((trl::ppo_critic({}, -1)), "trl::ppo_critic: vf_coef = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((with_advantage(paper::grpo(), group_relative{.epsilon = -1})),
                 "group_relative: epsilon = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((with_advantage(paper::grpo(), in_order{rloo{}, reward_clip{.low = 1, .high = -1}})),
                 "reward_clip: low = 1, expected a number of at most high = -1");
  EXPECT_REFUSED((with_advantage(paper::ppo(), reinforce_plus_plus{.gamma = 2})),
                 "reinforce_plus_plus: gamma = 2, expected a number in [0, 1]");
}

TEST(settings, of_coefficients_and_temperatures) {
  EXPECT_REFUSED((paper::grpo({.kl = -0.04})), "grpo: kl = -0.04, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::reinforce_plus_plus_baseline({.kl = inf})),
                 "reinforce_plus_plus_baseline: kl = inf, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::dro({.beta = -1})), "dro: beta = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::kl_cov({.kappa = -1})), "kl_cov: kappa = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::sapo({.temperature_positive = 0})),
                 "sapo: temperature_positive = 0, expected a finite number above 0");
  EXPECT_REFUSED((paper::sapo({.temperature_negative = -1})),
                 "sapo: temperature_negative = -1, expected a finite number above 0");
  EXPECT_REFUSED((paper::vespo({.k_positive = -2})), "vespo: k_positive = -2, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::vespo({.lambda_negative = nan})),
                 "vespo: lambda_negative = nan, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::dr_grpo({.length = 0})), "dr_grpo: length = 0, expected a finite number above 0");
  EXPECT_REFUSED((with_aggregation(paper::grpo(), fixed_length{})),
                 "fixed_length: length = 0, expected a finite number above 0");
  EXPECT_REFUSED((with_kl(paper::dapo(), nan)), "with_kl: coefficient = nan, expected a finite number of at least 0");
  EXPECT_REFUSED((with_entropy(paper::dapo(), inf)), "scaled: scale = -inf, expected a finite number");
}

TEST(settings, of_preferences_and_labels) {
  EXPECT_REFUSED((paper::dpo({.label_smoothing = 1})), "dpo: label_smoothing = 1, expected a number in [0, 1)");
  EXPECT_REFUSED((paper::simpo({.margin = inf})), "simpo: margin = inf, expected a finite number");
  EXPECT_REFUSED((paper::cpo({.likelihood = -1})), "cpo: likelihood = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::orpo({.beta = nan})), "orpo_link: beta = nan, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::rm({.margin = nan})), "rm: margin = nan, expected a finite number");
  EXPECT_REFUSED((paper::centered_rm({.coefficient = -0.01})),
                 "centered_rm: coefficient = -0.01, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::preference(mixed{bradley_terry{}, scaled{0.5, bradley_terry{.smoothing = -1}}})),
                 "bradley_terry: smoothing = -1, expected a number in [0, 1)");
  EXPECT_REFUSED((paper::kto({.kl = kto_baseline{0.0}, .undesirable_weight = -1})),
                 "kto_link: undesirable_weight = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((paper::gkd({.beta = 1.5})), "gkd: beta = 1.5, expected a number in [0, 1]");
  EXPECT_REFUSED((paper::a2po({.beta = 0})), "squared_residual: beta = 0, expected a finite number above 0");
  EXPECT_REFUSED((paper::flow_rl({.bound = -1})), "trajectory_balance: bound = -1, expected a number above 0");
  EXPECT_REFUSED((openrlhf::dpo({}, -1)), "openrlhf::dpo: nll_loss_coef = -1, expected a finite number of at least 0");
}

TEST(settings, of_systems) {
  EXPECT_REFUSED((verl::grpo({.clip_low = -0.2})),
                 "verl::clip_settings: clip_low = -0.2, expected a number of at least 0");
  EXPECT_REFUSED((verl::grpo({.clip_c = 1})), "verl::clip_settings: clip_c = 1, expected a number above 1");
  EXPECT_REFUSED((verl::gspo({.clip_high = nan})),
                 "verl::clip_settings: clip_high = nan, expected a number of at least 0");
  for (const double bound : {nan, -1.0}) {
    EXPECT_THROW(verl::gspo({.clip_c = bound}), std::invalid_argument);
    EXPECT_THROW(verl::gmpo({.clip_c = bound}), std::invalid_argument);
    EXPECT_THROW(verl::cispo({.clip_c = bound}), std::invalid_argument);
    EXPECT_THROW(verl::clip_cov({.clip_c = bound}), std::invalid_argument);
  }
  EXPECT_REFUSED((with_kl(paper::dapo(), -1)), "with_kl: coefficient = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((verl::dr_grpo(0)), "verl::dr_grpo: length = 0, expected a finite number above 0");
  EXPECT_REFUSED((verl::kl_cov(-1)), "verl::kl_cov: ppo_kl_coef = -1, expected a finite number of at least 0");
  EXPECT_REFUSED((verl::dro(nan)), "verl::dro: dro_beta = nan, expected a finite number of at least 0");
  EXPECT_REFUSED((trl::grpo({.clip_low = -1})), "trl::clip_settings: clip_low = -1, expected a number of at least 0");
  EXPECT_REFUSED((trl::cispo(0)), "trl::cispo: epsilon_high = 0, expected a number above 0");
  EXPECT_REFUSED((trl::dr_grpo(-5)), "trl::dr_grpo: length = -5, expected a finite number above 0");
  EXPECT_REFUSED((trl::two_sided_dapo({.bound = -4})), "two_sided_clip: bound = -4, expected a number above 0");
  EXPECT_REFUSED((openrlhf::ppo({.clip_high = -1})),
                 "openrlhf::clip_settings: clip_high = -1, expected a number of at least 0");
}

TEST(settings, inside_combinations) {
  EXPECT_REFUSED((algorithm{rloo{}, sum{k3{}, scaled{1.0, weighted{ppo_clip{.low = -1}}}}, token_mean{}}),
                 "ppo_clip: low = -1, expected a number of at least 0");
  EXPECT_REFUSED((algorithm{rloo{}, sequence_is{limited_log_ratio{ppo_clip{}, 1, -1}}, token_mean{}}),
                 "limited_log_ratio: low = 1, expected a number of at most high = -1");
}

TEST(settings, that_papers_and_systems_use) {
  EXPECT_ACCEPTED((verl::cispo({.clip_low = 10, .clip_high = 0.2})));  // verl's example: no lower bound
  EXPECT_ACCEPTED((paper::grpo({.clip_low = 1, .clip_high = inf, .kl = 0})));
  EXPECT_ACCEPTED((paper::ppo({.gamma = 1, .lambda = 0})));
  EXPECT_ACCEPTED((paper::ppo_critic({.range = inf})));
  EXPECT_ACCEPTED((openrlhf::grpo()));
  EXPECT_ACCEPTED((openrlhf::gspo()));
  EXPECT_ACCEPTED((verl::gspo()));
  EXPECT_ACCEPTED((trl::cispo(inf)));
  EXPECT_ACCEPTED((paper::gkd({.beta = 0})));
  EXPECT_ACCEPTED((paper::simpo({.margin = -0.5})));
  EXPECT_ACCEPTED((with_entropy(paper::dapo(), -0.01)));
}

TEST(settings, are_checked_while_compiling_where_they_are_constants) {
  static constexpr auto grpo = paper::grpo({.clip_high = 0.28});
  EXPECT_EQ(grpo.objective.first.high, 0.28);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
