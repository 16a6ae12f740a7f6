// GRPO and its variants: DAPO, Dr. GRPO, GDPO.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/gdpo.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// GRPO (Shao et al. 2024, DeepSeekMath, equation 3): group_relative{}; clipped surrogate plus kl times k3; mean over
/// sequences of token means. The defaults are the paper's.
struct grpo_settings {
  double clip_low = 0.2, clip_high = 0.2;
  double kl = 0.04;
};
/// The three parts of GRPO with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and clip_high
/// and kl are at least 0.
constexpr auto grpo(const grpo_settings& s = {}) {
  detail::check_clip("grpo", s.clip_low, s.clip_high);
  check_setting("grpo", "kl", s.kl, setting::coefficient);
  return algorithm{group_relative{}, sum{ppo_clip{.low = s.clip_low, .high = s.clip_high}, scaled{s.kl, k3{}}},
                   sequence_mean_token_mean{}};
}

/// DAPO (Yu et al. 2025): group_relative{}; clip-higher, no KL; the mean over all tokens of the step. Its other two
/// parts act before the loss: groups of equal rewards are resampled, and the score of overlong answers is lowered
/// (soft_overlong).
struct dapo_settings {
  double clip_low = 0.2, clip_high = 0.28;
};
/// The three parts of DAPO with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and clip_high
/// at least 0.
constexpr auto dapo(const dapo_settings& s = {}) {
  detail::check_clip("dapo", s.clip_low, s.clip_high);
  return algorithm{group_relative{}, ppo_clip{.low = s.clip_low, .high = s.clip_high}, token_mean{}};
}

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

/// GDPO (Liu et al. 2026): every reward normalised within its group before the weighted sum; otherwise GRPO without KL.
struct gdpo_settings {
  double clip_low = 0.2, clip_high = 0.2;
};
/// The three parts of GDPO with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and clip_high
/// at least 0.
constexpr auto gdpo(const gdpo_settings& s = {}) {
  detail::check_clip("gdpo", s.clip_low, s.clip_high);
  return algorithm{rlcore::gdpo{}, ppo_clip{.low = s.clip_low, .high = s.clip_high}, sequence_mean_token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
