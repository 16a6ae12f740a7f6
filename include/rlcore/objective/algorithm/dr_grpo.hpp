// GRPO done right.
#pragma once

#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/fixed_length.hpp"
#include "rlcore/objective/loop/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

RLCORE_BEGIN

/// Dr. GRPO (Liu et al. 2025): the clipped surrogate without KL, advantages from group_relative{.normalize_by_std =
/// false}, aggregated by fixed_length{longest response allowed}. The last two remove the paper's two biases.
struct dr_grpo_settings {
  double clip_low = 0.2, clip_high = 0.2;
};

constexpr clipped_ratio dr_grpo(const dr_grpo_settings& s = {}) noexcept {
  return {.low = s.clip_low, .high = s.clip_high};
}

RLCORE_END
