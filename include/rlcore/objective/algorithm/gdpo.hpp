// GRPO with several rewards.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/gdpo.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

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
