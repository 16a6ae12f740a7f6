// The KL coefficient that steers towards a target.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// coefficient <- coefficient (1 + clip(kl / target - 1, -0.2, 0.2) rows / horizon) after each step (Ziegler et al.
/// 2019; the defaults are verl's). Pure: `updated` returns the next controller. A batch larger than the horizon counts
/// as one horizon, so the coefficient never changes by more than 20 % and never turns negative, as the plain formula
/// would with more than five horizons in a batch. A kl that is NaN or infinite (a step without tokens, an impossible
/// token) says nothing about the policy: the coefficient stays.
struct adaptive_kl {
  double coefficient = 0.001, target = 0.1, horizon = 10000;

  /// kl: mean over rows of each row's mean KL. rows: trajectories in the step.
  [[nodiscard]] constexpr adaptive_kl updated(double kl, std::int64_t rows) const noexcept {
    if (!(kl - kl == 0)) return *this;
    const double error = std::clamp(kl / target - 1.0, -0.2, 0.2);
    const double share = std::min(static_cast<double>(rows) / horizon, 1.0);
    return {coefficient * (1.0 + error * share), target, horizon};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
