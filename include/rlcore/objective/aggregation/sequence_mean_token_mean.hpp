// Every sequence of the step weighs the same.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / (S* n): the mean over non-empty sequences of each one's token mean (GRPO; verl "seq-mean-token-mean", which adds
/// 1e-8 to n).
struct sequence_mean_token_mean {
  static constexpr bool averages_tokens = true;  // so it also is the mean of what a sequence has once
  /// What each of the row's n live tokens weighs; S* counts the rows of the step that have live tokens.
  double weight(row_info row, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.sequences()) * static_cast<double>(row.tokens));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
