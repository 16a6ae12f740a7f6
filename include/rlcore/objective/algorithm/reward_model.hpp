// Reward models and process reward models.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/reward_model.hpp"
#include "rlcore/objective/piece/score.hpp"
#include "rlcore/objective/piece/supervised.hpp"
#include "rlcore/objective/process_reward.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// A reward model on pairs (Ouyang et al. 2022): -log sigmoid(chosen - rejected - margin), the score of a row being
/// field::value at its one live token; the mean over pairs.
struct rm_settings {
  double margin = 0.0;
};
/// The loss of a reward model with these settings. Throws std::invalid_argument unless margin is finite.
constexpr auto rm(const rm_settings& s = {}) {
  check_setting("rm", "margin", s.margin, setting::finite);
  return algorithm{no_advantage{},
                   sequence_objective{sum_of<head_score>{}, bradley_terry{.beta = 1.0, .margin = s.margin}},
                   pair_mean{}};
}

/// With a margin per pair in field::target of the chosen row (Llama 2).
constexpr auto rm_with_margins() {
  return algorithm{no_advantage{}, sequence_objective{sum_of<head_score>{}, bradley_terry_with_margin{}}, pair_mean{}};
}

/// With scores kept around 0 (Eisenstein et al. 2023): + coefficient (chosen + rejected)^2.
struct centered_rm_settings {
  double coefficient = 0.01;
};
/// The loss of a centred reward model with these settings. Throws std::invalid_argument unless coefficient is finite
/// and at least 0.
constexpr auto centered_rm(const centered_rm_settings& s = {}) {
  check_setting("centered_rm", "coefficient", s.coefficient, setting::coefficient);
  return algorithm{no_advantage{},
                   sequence_objective{sum_of<head_score>{},
                                      mixed{bradley_terry{.beta = 1.0}, scaled{s.coefficient, centering_link{}}}},
                   pair_mean{}};
}

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
