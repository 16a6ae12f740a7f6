// A penalty that grows as a response comes near the length limit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -factor * clamp((length - (max_length - buffer)) / buffer, 0, limit): 0 up to max_length - buffer, then falling by
/// `factor` over `buffer` tokens (DAPO, Yu et al. 2025, eq. 13). With limit = 1 it stays at -factor beyond max_length
/// (the paper, OpenRLHF, MindSpeed-RL, TRL); with limit = infinity it falls on (verl). buffer = 0: -factor * limit
/// beyond max_length, as TRL has it; there the limit has to be finite.
struct soft_overlong {
  std::int64_t max_length = 0, buffer = 0;
  double factor = 1.0, limit = 1.0;

  /// Throws std::invalid_argument unless 0 <= buffer <= max_length, and for buffer = 0 without a finite limit.
  constexpr double penalty(std::int64_t length) const {
    if (buffer < 0 || buffer > max_length)
      throw std::invalid_argument("rlcore: soft_overlong needs 0 <= buffer <= max_length, they are " +
                                  std::to_string(buffer) + " and " + std::to_string(max_length));
    if (buffer == 0 && !(limit - limit == 0))
      throw std::invalid_argument(
          "rlcore: soft_overlong with buffer 0 needs a finite limit; a penalty that falls on "
          "needs buffer > 0");
    const std::int64_t excess = length - (max_length - buffer);
    if (excess <= 0) return 0.0;
    if (buffer == 0) return -factor * limit;
    return -std::min(static_cast<double>(excess) / static_cast<double>(buffer), limit) * factor;
  }

  /// Adds the penalty.
  constexpr double operator()(const response& r) const { return r.reward + penalty(r.length); }
};

RLCORE_ALGORITHM_END
RLCORE_END
