// The algorithms as OpenRLHF computes them (0.11.2), with the defaults of its command line.
//
// The token's log-ratio is clamped to +-20, the dual bound is off unless dual_clip is set, and the mean is over all
// tokens of the step. The KL is in the reward by default (--algo.kl.init_coef 0.01, k1); --algo.kl.use_loss is
// with_kl(a, 0.01, ...). Advantages other than GAE's and REINFORCE's are clipped to +-10 after normalisation, as
// in_order does.
#pragma once

#include <limits>
#include <stdexcept>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/advantage/rloo.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/advantage/whitening.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/dpo.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"
#include "rlcore/objective/piece/value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace openrlhf {

/// --actor.eps_clip_low_high, --actor.dual_clip: a bound above 1 of the ratio where A < 0; infinity means none.
struct clip_settings {
  double clip_low = 0.2, clip_high = 0.2, dual_clip = std::numeric_limits<double>::infinity();
  /// The surrogate with the token's log-ratio within +-`limit`. Throws std::invalid_argument unless dual_clip is above
  /// 1 and the clip widths are at least 0.
  constexpr rlcore::dual_clip surrogate(double limit = 20.0) const {
    if (!(dual_clip > 1))
      throw std::invalid_argument("rlcore: openrlhf::clip_settings::dual_clip is a bound of the ratio, so above 1");
    check_setting("openrlhf::clip_settings", "clip_low", clip_low, setting::width);
    check_setting("openrlhf::clip_settings", "clip_high", clip_high, setting::width);
    return {.low = clip_low, .high = clip_high, .bound = dual_clip, .limit = limit};
  }
};

/// --algo.advantage.estimator gae; a tool's tokens are a step of value 0. Whitening is whitened_by().
constexpr auto ppo(const clip_settings& s = {}) {
  return algorithm{gae{.turns = turn_policy::discount}, s.surrogate(), token_mean{}};
}
/// The normalisation after gae and reinforce: population variance, floored at 1e-8.
constexpr whitening whitened_by() noexcept { return {.guard = variance_guard::floor, .sample_variance = false}; }
/// The critic's loss: clipped squared error, the mean over all tokens.
constexpr auto ppo_critic(clipped_value loss = {}) { return algorithm{no_advantage{}, loss, token_mean{}}; }

/// group_norm.
constexpr auto grpo(const clip_settings& s = {}) {
  return algorithm{in_order{group_relative{.epsilon = 1e-9, .singleton = singleton_group::zero},
                            reward_clip{.low = -10, .high = 10}},
                   s.surrogate(), token_mean{}};
}
/// dr_grpo: only the advantage; the loss keeps its denominator.
constexpr auto dr_grpo(const clip_settings& s = {}) {
  return algorithm{in_order{group_relative{.normalize_by_std = false, .singleton = singleton_group::zero},
                            reward_clip{.low = -10, .high = 10}},
                   s.surrogate(), token_mean{}};
}
/// rloo: the reward minus the mean of the remaining answers.
constexpr auto rloo(const clip_settings& s = {}) {
  return algorithm{in_order{rlcore::rloo{}, reward_clip{.low = -10, .high = 10}}, s.surrogate(), token_mean{}};
}
/// reinforce.
constexpr auto reinforce_plus_plus(const clip_settings& s = {}) {
  return algorithm{rlcore::reinforce_plus_plus{.turns = turn_policy::discount, .whiten = whitened_by()}, s.surrogate(),
                   token_mean{}};
}
/// --actor.policy_loss_type gspo: the sequence's log-ratio has no limit.
constexpr auto gspo(const clip_settings& s = {}) {
  return algorithm{grpo().advantage,
                   one_per_sequence{sequence_is{s.surrogate(std::numeric_limits<double>::infinity())}},
                   sequence_mean_token_mean{}};
}

/// DPO with --nll_loss_coef: the likelihood of the chosen answers, averaged over tokens and then over answers.
constexpr auto dpo(const paper::dpo_settings& s = {}, double nll_loss_coef = 0.0) {
  check_setting("openrlhf::dpo", "nll_loss_coef", nll_loss_coef, setting::coefficient);
  return with_likelihood<chosen_sequence_mean>(paper::dpo(s), nll_loss_coef);
}
/// --ipo: on sums of log-ratios.
constexpr auto ipo(ipo_link link = {}) { return paper::preference(link); }

}  // namespace openrlhf

RLCORE_ALGORITHM_END
RLCORE_END
