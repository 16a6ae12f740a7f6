// The releases of verl whose numbers differ.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/advantage/turn_policy.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace verl {

/// A release of verl, in their order; docs/verl_versions.md lists what differs between them.
enum class version : std::uint8_t {
  august_2025,  ///< commit 28f6e4af7 of 2025-08-15, between 0.5.0 and 0.6.0
  v0_6_1,
  v0_8_0,
  v0_9_1
};

/// The version that everything follows which is not told another.
inline constexpr version newest = version::v0_9_1;

/// How the returns of reinforce_plus_plus pass masked tokens: through 0.8.0 nothing of later turns arrived.
constexpr turn_policy turns_of_returns(version v) noexcept {
  return v < version::v0_9_1 ? turn_policy::reset : turn_policy::skip;
}

}  // namespace verl

RLCORE_ALGORITHM_END
RLCORE_END
