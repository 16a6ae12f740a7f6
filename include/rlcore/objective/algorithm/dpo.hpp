// Direct Preference Optimization.
#pragma once

#include "rlcore/objective/aggregation/sequence_mean.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/preference/bradley_terry.hpp"
#include "rlcore/objective/piece/score/scores.hpp"

RLCORE_BEGIN

/// DPO (Rafailov et al. 2023): -log sigmoid(beta (chosen - rejected)) on sums of logp - ref_logp, aggregated by
/// pair_mean. label_smoothing > 0 is cDPO (Mitchell 2023).
struct dpo_settings {
  double beta = 0.1, label_smoothing = 0.0;
};

constexpr auto dpo(const dpo_settings& s = {}) noexcept {
  return sequence_objective{sum_of<log_ratio_to_reference>{},
                            bradley_terry{.beta = s.beta, .smoothing = s.label_smoothing}};
}

RLCORE_END
