// KL penalty in the rewards of a step (use_kl_in_reward).
#pragma once

#include <iterator>
#include <vector>

#include "rlcore/objective/controller/coefficient.hpp"
#include "rlcore/telemetry/metrics.hpp"
#include "rlcore/trainer/policy/collect.hpp"
#include "rlcore/trainer/policy/settings.hpp"
#include "rlcore/trainer/policy/trajectory/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Subtracts coefficient x KL from the rewards of `batch`, sets actor/reward_kl_penalty and
/// actor/reward_kl_penalty_coeff, and moves an adaptive coefficient to its value in the next step.
inline void pay_kl(std::vector<trajectory>& batch, const reward_kl_settings& k, double& coefficient, metrics& numbers) {
  const double kl = penalise_rewards(batch, {k.kind, coefficient});
  numbers.set("actor/reward_kl_penalty", kl);
  numbers.set("actor/reward_kl_penalty_coeff", coefficient);
  if (k.adaptive)
    coefficient = adaptive_kl{coefficient, k.target, k.horizon}.updated(kl, std::ssize(batch)).coefficient;
}

}  // namespace trainer
RLCORE_END
