// The mean over sequences of their sums.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / S*: the mean over non-empty sequences of each one's token sum (verl "seq-mean-token-sum").
struct sequence_mean_token_sum {
  static constexpr bool ignores_length = true;
  /// What each live token of the row weighs; S* counts the rows of the step that have live tokens.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / static_cast<double>(step.sequences());
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
