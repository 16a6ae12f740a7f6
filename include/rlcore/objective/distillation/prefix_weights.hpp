// Token weights that fall as a sequence drifts away from the teacher.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// w_t = 1 + gamma (1 - sum_{s < t} |a_s| / sum_s |a_s|) over one sequence with a = teacher_logp - rollout_logp of its
/// live tokens: early tokens weigh up to 1 + gamma (IW-OPD, TRL, whose defaults these are). 0 where the mask is 0,
/// whose slots are not read; an empty mask means all are live. Throws std::invalid_argument if lengths differ.
struct prefix_weights {
  double gamma = 0.5, epsilon = 1e-8;  ///< epsilon: the least that the total counts

  template <class T, class Mask = std::uint8_t>
  void operator()(std::span<const T> teacher_logp, std::span<const T> rollout_logp, std::span<T> weight,
                  std::span<const Mask> mask = {}) const {
    const std::size_t n = teacher_logp.size();
    if (rollout_logp.size() != n || weight.size() != n || (!mask.empty() && mask.size() != n))
      throw std::invalid_argument("rlcore: prefix_weights: teacher [" + std::to_string(n) + "], rollout [" +
                                  std::to_string(rollout_logp.size()) + "], weight [" + std::to_string(weight.size()) +
                                  "], mask [" + std::to_string(mask.size()) + "]");
    const auto live = [&](std::size_t t) { return mask.empty() || mask[t] != Mask(0); };
    const auto gap = [&](std::size_t t) {
      return std::abs(static_cast<double>(teacher_logp[t]) - static_cast<double>(rollout_logp[t]));
    };
    double total = 0, before = 0;
    for (std::size_t t = 0; t < n; ++t)
      if (live(t)) total += gap(t);
    total = std::max(total, epsilon);
    for (std::size_t t = 0; t < n; ++t) {
      weight[t] = live(t) ? static_cast<T>(1 + gamma * (1 - before / total)) : T(0);
      if (live(t)) before += gap(t);
    }
  }
};

RLCORE_END
