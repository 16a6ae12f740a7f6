// The mean of all rewards so far: BCO's shift.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Mean over all rows of all steps. Update once per optimizer step with the rewards of all its rows: the result then
/// depends neither on their order nor on micro-batches (TRL updates per micro-batch, so its loss depends on how the
/// step is cut). Both members are the whole state: save and restore them.
struct running_mean {
  double mean = 0;
  std::int64_t count = 0;

  /// Throws std::invalid_argument for a reward that is not finite; the state is then as it was.
  template <class Rewards>
  void update(const Rewards& rewards) {
    exact_sum sum;
    for (std::size_t i = 0; i < rewards.size(); ++i) {
      if (!std::isfinite(rewards[i]))
        throw std::invalid_argument("rlcore: reward " + std::to_string(i) + " is not finite");
      sum.add(static_cast<double>(rewards[i]));
    }
    const auto rows = static_cast<std::int64_t>(rewards.size());
    if (rows == 0) return;
    const double share = static_cast<double>(rows) / static_cast<double>(count + rows);
    mean += (sum.value() / static_cast<double>(rows) - mean) * share;
    count += rows;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
