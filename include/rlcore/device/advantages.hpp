// Advantage estimation on a device: compute_advantages(device, estimator, rewards, ..., advantages) with device arrays,
// and compute_rewards(device, token_rewards, ...) with the KL penalty in the reward.
// Estimators without a device implementation run on the host where it reads the memory; elsewhere they do not compile.
#pragma once

#include <utility>

#include "rlcore/device/advantages/groups.hpp"
#include "rlcore/device/advantages/returns.hpp"
#include "rlcore/device/advantages/token_rewards.hpp"
#include "rlcore/device/advantages/whiten.hpp"
#include "rlcore/device/losses/evaluate.hpp"
#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"

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

namespace device_advantages {

/// Whether compute_advantages() supports the estimator on a device.
template <class Estimator>
inline constexpr bool known = false;
template <>
inline constexpr bool known<group_relative> = true;
template <>
inline constexpr bool known<rloo> = true;
template <>
inline constexpr bool known<reinforce_plus_plus_baseline> = true;
template <>
inline constexpr bool known<row_normalization> = true;
template <>
inline constexpr bool known<reward_clip> = true;
template <>
inline constexpr bool known<whitening> = true;
template <>
inline constexpr bool known<gae> = true;
template <>
inline constexpr bool known<whitened<gae>> = true;
template <>
inline constexpr bool known<discounted_return> = true;
template <>
inline constexpr bool known<remax> = true;
template <>
inline constexpr bool known<reinforce_plus_plus> = true;
template <class... Stages>
inline constexpr bool known<in_order<Stages...>> = true;
template <class Estimator, class Penalty>
inline constexpr bool known<on_penalised_rewards<Estimator, Penalty>> = known<Estimator>;

}  // namespace device_advantages

/// Does not compile: the estimator has no device implementation.
template <advantage_device Device, class Estimator, class... Arguments>
  requires(!device_advantages::known<Estimator>)
void compute_advantages(Device&, const Estimator&, const Arguments&...) {
  static_assert(dependent_false<Estimator>,
                "rlcore: this estimator of advantages runs on the host alone: download() its rewards, call it, and "
                "upload() the advantages; docs/devices.md names those that run on a device");
}

RLCORE_ALGORITHM_END
RLCORE_END
