// A reward for keeping to a length that the prompt asks for.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// LCPO (L1, Aggarwal and Welleck 2025). exact: right - rate |target - length|. at_most: right * clamp(rate (target -
/// length) + slack, 0, 1), where `target` is a budget.
struct target_length {
  double rate = 3e-4, slack = 0.5;

  /// The reward of an answer of `length` tokens where `target` were asked for.
  double exact(bool right, std::int64_t target, std::int64_t length) const noexcept {
    return (right ? 1.0 : 0.0) - rate * std::abs(static_cast<double>(target - length));
  }
  /// The reward of an answer of `length` tokens where at most `budget` were asked for; 0 if it is wrong.
  double at_most(bool right, std::int64_t budget, std::int64_t length) const noexcept {
    return right ? std::clamp(rate * static_cast<double>(budget - length) + slack, 0.0, 1.0) : 0.0;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
