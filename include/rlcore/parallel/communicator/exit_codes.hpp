// Exit codes of a process that stops because another rank failed.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// Timeout or lost rank: restart from the last checkpoint (EX_TEMPFAIL).
inline constexpr int exit_stuck = 75;

}  // namespace parallel
RLCORE_END
