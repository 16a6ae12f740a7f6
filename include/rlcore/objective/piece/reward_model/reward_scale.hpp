// Rewards of zero mean and unit deviation, for use after training.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// (score - mean) / deviation. Measured once over a data set, applied at inference only (OpenRLHF normalize_reward).
struct reward_scale {
  double mean = 0, deviation = 1;

  /// The score in units of the deviation.
  double operator()(double score) const noexcept { return (score - mean) / deviation; }

  /// Mean and deviation (n - 1) of scores, the deviation at least 1e-8 (OpenRLHF). Independent of their order. Throws
  /// std::invalid_argument for fewer than two scores or one that is not finite.
  template <class Scores>
  static reward_scale of(const Scores& scores) {
    const std::size_t count = scores.size();
    if (count < 2)
      throw std::invalid_argument("rlcore: a deviation needs at least two scores, got " + std::to_string(count));
    exact_sum sum, squares;
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isfinite(scores[i]))
        throw std::invalid_argument("rlcore: score " + std::to_string(i) + " is not finite");
      sum.add(static_cast<double>(scores[i]));
    }
    const double mean = sum.value() / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double d = static_cast<double>(scores[i]) - mean;
      squares.add(d * d);
    }
    return {mean, std::max(std::sqrt(squares.value() / static_cast<double>(count - 1)), 1e-8)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
