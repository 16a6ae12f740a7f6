// What a masked token inside a row means for returns.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// How returns pass a masked slot (a tool's or user's token between two turns of the policy). Its reward and value are
/// never read whatever the policy, and its own advantage and return are 0.
enum class turn_policy : std::uint8_t {
  skip,      ///< as if it were not there: rewards of later turns arrive undiscounted by it (verl, newest)
  discount,  ///< a step with reward 0 into a state of value 0, discounted like every step (OpenRLHF)
  reset,     ///< the end of an episode: nothing of later turns arrives (verl's reinforce_plus_plus through 0.8.0)
};

RLCORE_ALGORITHM_END
RLCORE_END
