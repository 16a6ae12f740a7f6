// ORPO: odds ratios, without a reference model.
#pragma once

#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/reference_free.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// ORPO (Hong et al. 2024): NLL of the chosen tokens plus beta times the odds-ratio term on mean log-probs.
constexpr auto orpo(orpo_link link = {}) {
  return with_likelihood(algorithm{no_advantage{}, sequence_objective{mean_of<log_prob>{}, link}, pair_mean{}}, 1.0);
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
