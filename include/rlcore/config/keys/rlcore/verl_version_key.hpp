// The key that chooses the version of verl.
#pragma once

#include "rlcore/config/algorithm/verl_version.hpp"
#include "rlcore/config/key.hpp"

RLCORE_BEGIN
namespace trainer::keys {

inline constexpr key verl_version_key = {
    "rlcore.verl",
    text,
    "0.9.1",
    honoured,
    "the version of verl whose numbers are computed where versions differ (docs/verl_versions.md)",
    words(verl_version_choices)};

}  // namespace trainer::keys
RLCORE_END
