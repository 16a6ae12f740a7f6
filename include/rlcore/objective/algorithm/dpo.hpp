// Direct Preference Optimization.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation/sequence_mean.hpp"
#include "rlcore/objective/algorithm/algorithm.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/bradley_terry.hpp"
#include "rlcore/objective/piece/score/scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// DPO (Rafailov et al. 2023): -log sigmoid(beta (chosen - rejected)) on sums of logp - ref_logp; the mean over pairs.
/// label_smoothing > 0 is cDPO (Mitchell 2023).
struct dpo_settings {
  positive beta = 0.1;
  double label_smoothing = 0.0;
};
/// The three parts of DPO with these settings. Throws std::invalid_argument unless label_smoothing is in [0, 1).
constexpr auto dpo(const dpo_settings& s = {}) {
  check_setting("dpo", "label_smoothing", s.label_smoothing, setting::below_1);
  return algorithm{no_advantage{},
                   sequence_objective{sum_of<log_ratio_to_reference>{},
                                      bradley_terry{.beta = s.beta, .smoothing = s.label_smoothing}},
                   pair_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
