// What a response earns that did not come to its end.
#pragma once

#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// reward * factor for truncated responses (OpenRLHF's stop_properly_penalty_coef from 0 to 1; ProRL, Liu et al. 2025).
/// Makes a negative reward smaller in size.
struct scale_truncated {
  double factor = 0.0;
  /// The next reward.
  constexpr double operator()(const response& r) const noexcept { return r.truncated ? r.reward * factor : r.reward; }
};

/// A fixed reward for truncated responses, whatever they say (OpenRLHF's stop_properly_penalty_coef below 0).
struct replace_truncated {
  double reward = -1.0;
  /// The next reward; that of a row that nobody scored stays NaN.
  constexpr double operator()(const response& r) const noexcept {
    return r.truncated && r.scored() ? reward : r.reward;
  }
};

/// reward - penalty for truncated responses, which have no end-of-sequence token (missing_eos_penalty of TRL's PPO).
struct missing_eos_penalty {
  double penalty = 1.0;
  /// The next reward.
  constexpr double operator()(const response& r) const noexcept { return r.truncated ? r.reward - penalty : r.reward; }
};

RLCORE_ALGORITHM_END
RLCORE_END
