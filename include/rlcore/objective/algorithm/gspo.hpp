// GSPO, GMPO, VESPO: sequence-level importance ratios.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"
#include "rlcore/objective/piece/surrogate/sequence.hpp"

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

/// GSPO-token (the same paper, section 4.3): advantages may differ from token to token, and any aggregation works.
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

/// VESPO (2026; the defaults are TRL's): group_relative{}; policy gradient weighted by w^k e^(lambda (1 - w)) of the
/// sequence's ratio w; the mean over all tokens.
struct vespo_settings {
  double k_positive = 2.0, lambda_positive = 3.0, k_negative = 3.0, lambda_negative = 2.0;
};
/// The three parts of VESPO with these settings. Throws std::invalid_argument for a setting that is negative or not
/// finite.
constexpr auto vespo(const vespo_settings& s = {}) {
  check_setting("vespo", "k_positive", s.k_positive, setting::coefficient);
  check_setting("vespo", "lambda_positive", s.lambda_positive, setting::coefficient);
  check_setting("vespo", "k_negative", s.k_negative, setting::coefficient);
  check_setting("vespo", "lambda_negative", s.lambda_negative, setting::coefficient);
  return algorithm{group_relative{},
                   rlcore::vespo{.k_positive = s.k_positive,
                                 .lambda_positive = s.lambda_positive,
                                 .k_negative = s.k_negative,
                                 .lambda_negative = s.lambda_negative},
                   token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
