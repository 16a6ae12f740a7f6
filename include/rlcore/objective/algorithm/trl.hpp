// The algorithms as TRL computes them (1.16.0), with the defaults of its configurations.
//
// Rows that are masked out still count in means over rows. No log-ratio is limited; a group's deviation gets 1e-4, a
// single answer 0. GRPOConfig's beta is 0: the KL is with_kl(a, beta). An `algorithm` has one aggregation, TRL's
// denominators are the same where one optimizer step consumes one generation batch. loss_type="bnpo" is dapo() with the
// counts of the micro-batch in place of the step's, evaluate(..., loss_counts(micro_batch)): each micro-batch is a mean
// of its own, and TRL takes the mean of those.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/simpo.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"
#include "rlcore/objective/piece/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace trl {

/// epsilon, epsilon_high.
struct clip_settings {
  double clip_low = 0.2, clip_high = 0.2;
  constexpr ppo_clip surrogate() const {
    check_setting("trl::clip_settings", "clip_low", clip_low, setting::width);
    check_setting("trl::clip_settings", "clip_high", clip_high, setting::width);
    return {.low = clip_low, .high = clip_high};
  }
};

/// scale_rewards="group"; with "none", normalize_by_std = false; "batch" is group_mean_batch_std{}.
constexpr group_relative advantage() noexcept { return {.epsilon = 1e-4, .singleton = singleton_group::zero}; }

/// loss_type="grpo".
constexpr auto grpo(const clip_settings& s = {}) {
  return algorithm{advantage(), s.surrogate(), row_mean_token_mean{}};
}
/// loss_type="dapo", the default.
constexpr auto dapo(const clip_settings& s = {}) { return algorithm{advantage(), s.surrogate(), token_mean{}}; }
/// loss_type="dr_grpo", scale_rewards="none"; `length` is max_completion_length.
constexpr auto dr_grpo(double length, const clip_settings& s = {}) {
  check_setting("trl::dr_grpo", "length", length, setting::positive);
  return algorithm{group_relative{.normalize_by_std = false, .singleton = singleton_group::zero}, s.surrogate(),
                   row_mean_fixed_length{length}};
}
/// delta: a bound of the ratio for negative advantages too.
constexpr auto two_sided_dapo(two_sided_clip surrogate = {}) { return algorithm{advantage(), surrogate, token_mean{}}; }
/// importance_sampling_level="sequence", loss_type="grpo".
constexpr auto gspo(const clip_settings& s = {}) {
  return algorithm{advantage(), one_per_sequence{sequence_is{s.surrogate()}}, row_mean_token_mean{}};
}
/// importance_sampling_level="sequence_token".
constexpr auto gspo_token(const clip_settings& s = {}) {
  return algorithm{advantage(), sequence_is{s.surrogate()}, row_mean_token_mean{}};
}
/// loss_type="luspo".
constexpr auto luspo(const clip_settings& s = {}) {
  return algorithm{advantage(), sequence_is{s.surrogate()}, row_mean_token_sum{}};
}
/// loss_type="cispo": epsilon_high is the bound of the ratio itself.
constexpr auto cispo(double epsilon_high = 5.0) {
  check_setting("trl::cispo", "epsilon_high", epsilon_high, setting::bound);
  return algorithm{advantage(), rlcore::cispo{ratio_bound{.high = epsilon_high}}, token_mean{}};
}
/// loss_type="sapo".
constexpr auto sapo(rlcore::sapo surrogate = {}) { return algorithm{advantage(), surrogate, row_mean_token_mean{}}; }
/// loss_type="vespo".
constexpr auto vespo(rlcore::vespo surrogate = {}) { return algorithm{advantage(), surrogate, token_mean{}}; }
/// experimental GMPO: epsilon is a width in log space. As for rloo, TRL's value has -A for a row without tokens.
constexpr auto gmpo(geometric_mean_ratio surrogate = {}) {
  return algorithm{advantage(), surrogate, row_mean_token_mean{}};
}
/// RLOOTrainer: one ratio per sequence, of the product of its tokens' probabilities. A row without tokens adds -A to
/// the value and nothing to the gradient.
constexpr auto rloo(const clip_settings& s = {}) {
  return algorithm{rlcore::rloo{}, sequence_objective{sum_of<log_ratio_to_old>{}, s.surrogate()}, row_mean{}};
}
/// experimental PPO: lambda 0.95, to be whitened.
constexpr auto ppo(const clip_settings& s = {}) { return algorithm{gae{.lambda = 0.95}, s.surrogate(), token_mean{}}; }
/// cliprange_value 0.2, vf_coef 0.1: TRL adds the critic's loss, so scaled, to the policy's.
constexpr auto ppo_critic(clipped_value loss = {.range = 0.2}, double vf_coef = 0.1) {
  check_setting("trl::ppo_critic", "vf_coef", vf_coef, setting::coefficient);
  return algorithm{no_advantage{}, scaled{vf_coef, loss}, token_mean{}};
}
/// CPOTrainer with loss_type="simpo": beta 0.1, simpo_gamma 0.5.
constexpr auto simpo(const paper::simpo_settings& s = {.beta = 0.1, .margin = 0.5}) { return paper::simpo(s); }

}  // namespace trl

RLCORE_ALGORITHM_END
RLCORE_END
