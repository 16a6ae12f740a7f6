// Group Sequence Policy Optimization.
#pragma once

#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/sequence_mean.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/score/scores.hpp"
#include "rlcore/objective/piece/surrogate/clipped_ratio.hpp"

RLCORE_BEGIN

/// GSPO (Zheng et al. 2025): the clipped surrogate of PPO on one ratio per sequence, s = exp(mean over its tokens of
/// logp - old_logp); advantages from group_relative{}, aggregated by sequence_mean. The clip widths are the paper's.
struct gspo_settings {
  double clip_low = 3e-4, clip_high = 4e-4;
};

constexpr auto gspo(const gspo_settings& s = {}) noexcept {
  return sequence_objective{mean_of<log_ratio_to_old>{}, clipped_ratio{.low = s.clip_low, .high = s.clip_high}};
}

RLCORE_END
