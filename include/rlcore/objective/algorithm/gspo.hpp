// Surrogates on the ratio of the whole sequence.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_sum.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/one_per_sequence.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"
#include "rlcore/objective/piece/surrogate/sequence_is.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// GSPO (Zheng et al. 2025): group_relative{}; PPO's clipped surrogate on one ratio per sequence, exp(mean over its
/// tokens of logp - old_logp); the mean over sequences. The clip widths are the paper's.
struct gspo_settings {
  double clip_low = 3e-4, clip_high = 4e-4;
};
/// The three parts of GSPO with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and clip_high
/// at least 0.
constexpr auto gspo(const gspo_settings& s = {}) {
  detail::check_clip("gspo", s.clip_low, s.clip_high);
  return algorithm{group_relative{}, one_per_sequence{sequence_is{ppo_clip{.low = s.clip_low, .high = s.clip_high}}},
                   sequence_mean_token_mean{}};
}

/// GSPO-token (the same paper, section 4.3): advantages may differ from token to token, and any aggregation is open.
constexpr auto gspo_token(const gspo_settings& s = {}) {
  detail::check_clip("gspo_token", s.clip_low, s.clip_high);
  return algorithm{group_relative{}, sequence_is{ppo_clip{.low = s.clip_low, .high = s.clip_high}},
                   sequence_mean_token_mean{}};
}

/// LUSPO (2026): GSPO with every sequence's term multiplied by its length, so that short answers are not favoured.
constexpr auto luspo(const gspo_settings& s = {}) {
  detail::check_clip("luspo", s.clip_low, s.clip_high);
  return algorithm{group_relative{}, sequence_is{ppo_clip{.low = s.clip_low, .high = s.clip_high}},
                   sequence_mean_token_sum{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
