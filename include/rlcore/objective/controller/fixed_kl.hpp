// The KL coefficient that stays.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A constant coefficient for the KL in the reward.
struct fixed_kl {
  double coefficient = 0.001;
  /// The coefficient of the next step: the same.
  [[nodiscard]] constexpr fixed_kl updated(double /*kl*/, std::int64_t /*rows*/) const noexcept { return *this; }
};

RLCORE_ALGORITHM_END
RLCORE_END
