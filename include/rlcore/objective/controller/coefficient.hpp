// Adaptive KL and adaptive entropy coefficients.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A constant coefficient for the KL in the reward.
struct fixed_kl {
  double coefficient = 0.001;
  /// The coefficient of the next step: the same.
  [[nodiscard]] constexpr fixed_kl updated(double /*kl*/, std::int64_t /*rows*/) const noexcept { return *this; }
};

/// coefficient <- coefficient (1 + clip(kl / target - 1, -0.2, 0.2) rows / horizon) after each step (Ziegler et al.
/// 2019; the defaults are verl's). Pure: `updated` returns the next controller. A batch larger than the horizon counts
/// as one horizon, so the coefficient never changes by more than 20 % and never turns negative, as the plain formula
/// would with more than five horizons in a batch. A kl that is NaN or infinite (a step without tokens, an impossible
/// token) leaves the coefficient unchanged.
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

/// After each step: coefficient + delta if the entropy was at most the target, else coefficient - delta, clamped to
/// [lowest, highest]; and the bonus is applied only while the last entropy was at most the target (Skywork-OR1, He et
/// al. 2025; TRL's use_adaptive_entropy, whose defaults these are). Pure: `updated` returns the next controller.
///
/// Before the first update the entropy is unknown and no bonus is applied. The bonus of a step is thus decided by the
/// step before it.
struct adaptive_entropy {
  double coefficient = 0.0, target = 0.2, delta = 0.005, lowest = 0.0, highest = 1.0;
  double last_entropy = std::numeric_limits<double>::infinity();

  /// The coefficient of entropy_bonus in the coming step.
  [[nodiscard]] constexpr double applied() const noexcept { return last_entropy <= target ? coefficient : 0.0; }

  /// entropy: mean over the tokens of the whole step, all micro-batches and ranks.
  [[nodiscard]] constexpr adaptive_entropy updated(double entropy) const noexcept {
    adaptive_entropy next = *this;
    next.coefficient =
        entropy <= target ? std::min(coefficient + delta, highest) : std::max(coefficient - delta, lowest);
    next.last_entropy = entropy;
    return next;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
