// How a process ends that cannot go on because of another one.
#pragma once

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// A deadline has passed or another rank has vanished: worth a restart from the last checkpoint (EX_TEMPFAIL).
inline constexpr int exit_stuck = 75;

}  // namespace parallel
RLCORE_END
