// The key of every trainer about what a terminal shows.
#pragma once

#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key console = {
    "rlcore.console",
    text,
    "null",
    honoured,
    "short: a table of steps, all metrics go to console.log; verl: all metrics; null: short on a terminal",
    words("short|verl")};

}  // namespace trainer::keys
RLCORE_END
