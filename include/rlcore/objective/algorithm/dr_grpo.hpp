// GRPO without its two biases.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/fixed_length.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// Dr. GRPO (Liu et al. 2025): advantages R - group mean, not divided by the deviation; clipped surrogate without KL;
/// every sequence divided by the same length. The default length is the paper's generation budget.
struct dr_grpo_settings {
  double clip_low = 0.2, clip_high = 0.2;
  double length = 3000;
};
/// The three parts of Dr. GRPO with these settings. Throws std::invalid_argument unless clip_low is in [0, 1],
/// clip_high at least 0 and length above 0.
constexpr auto dr_grpo(const dr_grpo_settings& s = {}) {
  detail::check_clip("dr_grpo", s.clip_low, s.clip_high);
  check_setting("dr_grpo", "length", s.length, setting::positive);
  return algorithm{group_relative{.normalize_by_std = false}, ppo_clip{.low = s.clip_low, .high = s.clip_high},
                   fixed_length{s.length}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
