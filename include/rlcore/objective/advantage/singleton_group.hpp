// The policy for groups in which nothing can be compared.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// What a group with a single scored row gets: there is nothing to compare with.
///
/// One rule for the defaults: an estimator follows the system whose formula its other defaults are, and where systems
/// differ or none has it, zero. So `reward` is the default of group_relative, gpg, opo and reinforce_plus_plus_baseline
/// (verl's grpo, gpg, opo, reinforce_plus_plus_baseline), and `zero` that of rloo (verl's rloo_vectorized, TRL; verl's
/// rloo gives the reward), group_mean_batch_std and gdpo (TRL) and group_median (no system). pass_at_k has no such
/// setting: without a second answer there is no difference, 0. Named algorithms set it as their system does.
enum class singleton_group : std::uint8_t {
  zero,    ///< advantage 0: no signal
  reward,  ///< mean 0 and deviation 1 are assumed, so the advantage is the reward itself (verl's grpo)
};

RLCORE_ALGORITHM_END
RLCORE_END
