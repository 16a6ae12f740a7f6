// What the shaping of rewards knows of a response.
#pragma once

#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// One response and its reward so far. A shaping is a callable `double operator()(const response&) const` that returns
/// the next reward. A reward of NaN marks a row that nobody scored; every shaping leaves it NaN.
struct response {
  double reward = 0;
  std::int64_t length = 0;  ///< in tokens
  bool truncated = false;   ///< stopped by the length limit, not by an end-of-sequence token

  constexpr bool scored() const noexcept { return reward == reward; }
};

RLCORE_ALGORITHM_END
RLCORE_END
