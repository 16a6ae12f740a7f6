// Advantages where the rewards are: compute_advantages(device, estimator, rewards, ..., advantages) with arrays of a
// device, and compute_rewards(device, token_rewards, ...) with the KL in the reward.
#pragma once

#include "rlcore/device/advantages/advantage_device.hpp"
#include "rlcore/device/advantages/groups.hpp"
#include "rlcore/device/advantages/in_order.hpp"
#include "rlcore/device/advantages/other_estimators.hpp"
#include "rlcore/device/advantages/returns.hpp"
#include "rlcore/device/advantages/token_rewards.hpp"
#include "rlcore/device/advantages/whiten.hpp"
