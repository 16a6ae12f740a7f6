// Group Relative Policy Optimization.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/piece/combine/scaled.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/divergence/k3.hpp"
#include "rlcore/objective/piece/surrogate/ppo_clip.hpp"

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

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
