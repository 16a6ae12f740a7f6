// Advantage estimation on a device whose memory the host reads: the host's estimators.
#pragma once

#include <utility>

#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// estimator(arguments...), so that cpu and npu share one program. Takes every estimator.
template <host_device Device, class Estimator, class... Arguments>
void compute_advantages(Device&, const Estimator& estimator, Arguments&&... arguments) {
  estimator(std::forward<Arguments>(arguments)...);
}
/// The same for rewards.
template <host_device Device, class... Arguments>
void compute_rewards(Device&, const token_rewards& estimator, Arguments&&... arguments) {
  estimator(std::forward<Arguments>(arguments)...);
}
/// The same for the rewards of rows.
template <host_device Device, class Rewards, class Totals>
void row_totals(Device&, const Rewards& rewards, const token_mask& mask, Totals&& totals) {
  row_totals(rewards, mask, totals);
}

RLCORE_ALGORITHM_END
RLCORE_END
