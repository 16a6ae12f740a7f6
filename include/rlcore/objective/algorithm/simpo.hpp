// SimPO, AlphaPO and CPO: preferences without a reference model.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/pairwise.hpp"
#include "rlcore/objective/piece/preference/reference_free.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// SimPO (Meng et al. 2024): the logistic loss on mean log-probs with a margin. The defaults are the paper's for
/// Llama-3-Base (margin = gamma, half of beta).
struct simpo_settings {
  positive beta = 2.0;
  double margin = 1.0, label_smoothing = 0.0;
};
/// The three parts of SimPO with these settings. Throws std::invalid_argument unless margin is finite and
/// label_smoothing in [0, 1).
constexpr auto simpo(const simpo_settings& s = {}) {
  check_setting("simpo", "margin", s.margin, setting::finite);
  check_setting("simpo", "label_smoothing", s.label_smoothing, setting::below_1);
  return algorithm{
      no_advantage{},
      sequence_objective{mean_of<log_prob>{},
                         bradley_terry{.beta = s.beta, .smoothing = s.label_smoothing, .margin = s.margin}},
      pair_mean{}};
}

/// AlphaPO (Gupta et al. 2025).
constexpr auto alpha_po(alpha_po_link link = {}) {
  return algorithm{no_advantage{}, sequence_objective{mean_of<log_prob>{}, link}, pair_mean{}};
}

/// CPO (Xu et al. 2024): the logistic loss on summed log-probs, plus `likelihood` times the NLL of the chosen tokens.
struct cpo_settings {
  positive beta = 0.1;
  double label_smoothing = 0.0, likelihood = 1.0;
};
/// CPO with these settings. Throws std::invalid_argument unless label_smoothing is in [0, 1) and likelihood a finite
/// number of 0 or more.
constexpr auto cpo(const cpo_settings& s = {}) {
  check_setting("cpo", "label_smoothing", s.label_smoothing, setting::below_1);
  check_setting("cpo", "likelihood", s.likelihood, setting::coefficient);
  return with_likelihood(
      algorithm{no_advantage{},
                sequence_objective{sum_of<log_prob>{}, bradley_terry{.beta = s.beta, .smoothing = s.label_smoothing}},
                pair_mean{}},
      s.likelihood);
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
