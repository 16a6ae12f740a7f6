// Decoupled Clip and Dynamic Sampling Policy Optimization.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// DAPO (Yu et al. 2025): group_relative{}; clip-higher, no KL; the mean over all tokens of the step. Its other two
/// parts act before the loss: groups of equal rewards are sampled anew, and the score of overlong answers is lowered
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

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
