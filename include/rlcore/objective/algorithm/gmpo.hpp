// Geometric-Mean Policy Optimization.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/geometric_mean_ratio.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// GMPO (Zhao et al. 2025): group_relative{}; the geometric mean over a sequence of its clipped ratios; the mean over
/// sequences. The clip widths are those of log-ratios.
struct gmpo_settings {
  double clip_low = 0.4, clip_high = 0.4;
};
/// The three parts of GMPO with these settings. Throws std::invalid_argument unless both widths are at least 0.
constexpr auto gmpo(const gmpo_settings& s = {}) {
  check_setting("gmpo", "clip_low", s.clip_low, setting::width);
  check_setting("gmpo", "clip_high", s.clip_high, setting::width);
  return algorithm{group_relative{}, geometric_mean_ratio{.low = s.clip_low, .high = s.clip_high},
                   sequence_mean_token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
