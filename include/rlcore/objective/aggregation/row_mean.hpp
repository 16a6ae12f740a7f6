// Means over all rows, those that are masked out entirely included.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / (rows n): as sequence_mean_token_mean, but an answer that is masked out entirely (truncated, rejected) still
/// counts, so that masking it makes the step smaller and not the other answers weightier. TRL's "grpo", and verl's
/// "seq-mean-token-mean" where it is given the global batch size.
struct row_mean_token_mean {
  static constexpr bool averages_tokens = true;
  /// What each of the row's n live tokens weighs.
  double weight(row_info row, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.rows()) * static_cast<double>(row.tokens));
  }
};

/// 1 / rows: the same for token sums (verl "seq-mean-token-sum" with the global batch size).
struct row_mean_token_sum {
  static constexpr bool ignores_length = true;
  /// What each live token of the row weighs, whatever the row.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.rows()); }
};

/// 1 / rows: the same for a term that each sequence has once. The term of a row without tokens is that of score 0; it
/// has no gradient (TRL's RLOOTrainer and KTOTrainer, OpenRLHF's KTO).
struct row_mean {
  static constexpr bool per_sequence = true, counts_empty = true;
  /// What the term of a row weighs, whatever the row.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.rows()); }
};

RLCORE_ALGORITHM_END
RLCORE_END
