// REINFORCE++: REINFORCE with PPO's clip and advantages normalised over the batch.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/reinforce_plus_plus.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/kl.hpp"
#include "rlcore/objective/piece/surrogate/clipped.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// REINFORCE++ (Hu 2025): returns of rewards that hold the KL penalty (kl_in_reward, k1), normalised over the batch;
/// the clipped surrogate; the mean over all tokens.
struct reinforce_plus_plus_settings {
  double clip_low = 0.2, clip_high = 0.2;
};
/// The three parts of REINFORCE++ with these settings. Throws std::invalid_argument unless clip_low is in [0, 1] and
/// clip_high at least 0.
constexpr auto reinforce_plus_plus(const reinforce_plus_plus_settings& s = {}) {
  detail::check_clip("reinforce_plus_plus", s.clip_low, s.clip_high);
  return algorithm{rlcore::reinforce_plus_plus{}, ppo_clip{.low = s.clip_low, .high = s.clip_high}, token_mean{}};
}

/// REINFORCE++-baseline (the same paper, for several answers per prompt): the group mean as baseline, normalised over
/// the batch; the KL as a loss, by k2. The coefficient is OpenRLHF's example's.
struct reinforce_plus_plus_baseline_settings {
  double clip_low = 0.2, clip_high = 0.2;
  double kl = 1e-5;
};
/// The three parts of REINFORCE++-baseline with these settings. Throws std::invalid_argument unless clip_low is in [0,
/// 1] and clip_high and kl are at least 0.
constexpr auto reinforce_plus_plus_baseline(const reinforce_plus_plus_baseline_settings& s = {}) {
  detail::check_clip("reinforce_plus_plus_baseline", s.clip_low, s.clip_high);
  check_setting("reinforce_plus_plus_baseline", "kl", s.kl, setting::coefficient);
  return algorithm{rlcore::reinforce_plus_plus_baseline{},
                   sum{ppo_clip{.low = s.clip_low, .high = s.clip_high}, scaled{s.kl, k2{}}}, token_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
