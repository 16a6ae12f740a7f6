// Proximal Policy Optimization with a critic.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"
#include "rlcore/objective/piece/value/clipped_value.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// PPO (Schulman et al. 2017) as InstructGPT and its successors use it: gae{}, to be whitened; the clipped surrogate;
/// the mean over all tokens. The KL penalty is in the reward (kl_in_reward). The critic has a loss of its own.
struct ppo_settings {
  double clip_low = 0.2, clip_high = 0.2;
  double gamma = 1.0, lambda = 0.95;
};
/// The actor's three parts with these settings. Throws std::invalid_argument unless clip_low, gamma and lambda are in
/// [0, 1] and clip_high is at least 0.
constexpr auto ppo(const ppo_settings& s = {}) {
  detail::check_clip("ppo", s.clip_low, s.clip_high);
  check_setting("ppo", "gamma", s.gamma, setting::fraction);
  check_setting("ppo", "lambda", s.lambda, setting::fraction);
  return algorithm{gae{.gamma = s.gamma, .lambda = s.lambda}, ppo_clip{.low = s.clip_low, .high = s.clip_high},
                   token_mean{}};
}

/// The critic's half: clipped squared error of field::value against field::target (the returns), around
/// field::old_value.
struct ppo_critic_settings {
  double range = 0.2;
};
/// The critic's loss with these settings. Throws std::invalid_argument unless range is at least 0.
constexpr auto ppo_critic(const ppo_critic_settings& s = {}) {
  check_setting("ppo_critic", "range", s.range, setting::width);
  return algorithm{no_advantage{}, clipped_value{.range = s.range}, token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
