// The entropy coefficient that steers towards a target.
#pragma once

#include <algorithm>
#include <limits>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// After each step: coefficient + delta if the entropy was at most the target, else coefficient - delta, kept within
/// [lowest, highest]; and the bonus is applied only while the last entropy was at most the target (Skywork-OR1, He et
/// al. 2025; TRL's use_adaptive_entropy, whose defaults these are). Pure: `updated` returns the next controller.
///
/// Before the first update nothing is known of the entropy and nothing is applied. What is applied in a step is thus
/// decided by the step before it.
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
