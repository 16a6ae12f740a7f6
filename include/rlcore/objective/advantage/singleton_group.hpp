// The policy for groups in which nothing can be compared.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// What a group with a single scored row gets: there is nothing to compare with.
enum class singleton_group : std::uint8_t {
  zero,    ///< advantage 0: no signal
  reward,  ///< mean 0 and deviation 1 are assumed, so the advantage is the reward itself (verl's grpo)
};

RLCORE_END
