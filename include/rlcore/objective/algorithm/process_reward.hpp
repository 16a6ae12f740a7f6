// Learning to judge steps.
#pragma once

#include "rlcore/objective/aggregation/token_mean.hpp"
#include "rlcore/objective/algorithm/logits_algorithm.hpp"
#include "rlcore/objective/piece/supervised/cross_entropy.hpp"
#include "rlcore/objective/process_reward/reward_token_cross_entropy.hpp"
#include "rlcore/objective/process_reward/soft_reward_cross_entropy.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// A process reward model (Lightman et al. 2023): cross-entropy of the judgement at each labelled step, the mean over
/// all labelled steps of the optimizer step. Labels are entries of the whole vocabulary, or classes of a head of its
/// own.
constexpr auto prm() { return algorithm{no_advantage{}, cross_entropy{}, token_mean{}}; }

/// Restricted to R reward tokens, hard labels 0 ... R - 1.
template <std::size_t R>
constexpr auto prm(const std::array<std::int64_t, R>& reward_tokens) {
  return algorithm{no_advantage{}, reward_token_cross_entropy<R>{reward_tokens}, token_mean{}};
}
/// Restricted to R reward tokens, soft labels: R probabilities per step.
template <std::size_t R>
constexpr auto soft_prm(const std::array<std::int64_t, R>& reward_tokens) {
  return algorithm{no_advantage{}, soft_reward_cross_entropy<R>{reward_tokens}, token_mean{}};
}

}  // namespace paper
RLCORE_ALGORITHM_END
RLCORE_END
