// A*-PO, SPPO, GVPO, FlowRL: regression on log-ratios (squared error) instead of a policy gradient.
#pragma once

#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/evaluate.hpp"
#include "rlcore/objective/loop/evaluate_sequences.hpp"
#include "rlcore/objective/piece/regression.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace paper {

/// A*-PO (Brantley et al. 2025): (beta sum of logp - ref_logp - (R - V*))^2, field::target being R - V* with the
/// optimal value V* of optimal_value{}; the mean over sequences.
constexpr auto a2po(squared_residual link = {.beta = 1e-3}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_reference>{}, link}, sequence_mean{}};
}

/// SPPO as online regression (Wu et al. 2024): (sum of logp - old_logp - eta R)^2, field::target being R.
constexpr auto sppo(squared_residual link = {}) {
  return algorithm{no_advantage{}, sequence_objective{sum_of<log_ratio_to_old>{}, link}, sequence_mean{}};
}

/// GVPO (Zhang et al. 2025): the log-ratios of a group regressed on its centred rewards. Couples whole groups, so the
/// step is one batch.
constexpr auto gvpo(const rlcore::gvpo& link) {
  return algorithm{group_relative{.normalize_by_std = false}, sequence_objective{sum_of<log_ratio_to_old>{}, link},
                   batch_total{}};
}

/// FlowRL (Zhu et al. 2025): trajectory balance with a learned log Z in field::value, one per row, and rewards in
/// field::target.
constexpr auto flow_rl(trajectory_balance link = {}) {
  return algorithm{no_advantage{}, sequence_objective{mean_of<log_ratio_to_reference>{}, link}, sequence_mean{}};
}

}  // namespace paper

RLCORE_ALGORITHM_END
RLCORE_END
