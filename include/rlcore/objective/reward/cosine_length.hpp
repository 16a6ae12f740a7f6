// A reward for being right, and for being right briefly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <stdexcept>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// long + (short - long) (1 + cos(pi min(length / max_length, 1))) / 2, with ends for right and for wrong responses
/// (Yeo et al. 2025, "Demystifying Long Chain-of-Thought Reasoning", appendix C.1). A right answer earns more if it is
/// short; a wrong one loses less if it is long, so that thinking on pays. The defaults are TRL's.
struct cosine_length {
  std::int64_t max_length = 0;
  double right_short = 1.0, right_long = 0.5, wrong_short = -1.0, wrong_long = -0.5;

  /// Throws std::invalid_argument unless max_length > 0.
  double operator()(bool right, std::int64_t length) const {
    if (max_length < 1)
      throw std::invalid_argument("rlcore: cosine_length needs max_length > 0, it is " + std::to_string(max_length));
    const double progress = std::min(static_cast<double>(length) / static_cast<double>(max_length), 1.0);
    const double at_start = right ? right_short : wrong_short, at_end = right ? right_long : wrong_long;
    return at_end + 0.5 * (at_start - at_end) * (1.0 + elementary::cos(progress * std::numbers::pi));
  }

  /// Replaces the reward; what was above 0 counts as right.
  double operator()(const response& r) const { return r.scored() ? (*this)(r.reward > 0, r.length) : r.reward; }
};

RLCORE_ALGORITHM_END
RLCORE_END
