// Advantage estimation on a device: compute_advantages(device, estimator, rewards, ..., advantages) with device arrays,
// and compute_rewards(device, token_rewards, ...) with the KL penalty in the reward.
#pragma once

#include "rlcore/device/advantages/groups.hpp"
#include "rlcore/device/advantages/in_order.hpp"
#include "rlcore/device/advantages/other_estimators.hpp"
#include "rlcore/device/advantages/returns.hpp"
#include "rlcore/device/advantages/token_rewards.hpp"
#include "rlcore/device/advantages/whiten.hpp"
