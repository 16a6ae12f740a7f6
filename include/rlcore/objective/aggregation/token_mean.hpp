// Every token of the step weighs the same.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / N*: the mean over all live tokens of the step (DAPO; verl "token-mean", TRL "dapo").
struct token_mean {
  static constexpr bool ignores_length = true;
  /// What each live token of the row weighs; N* counts the live tokens of the step.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.tokens()); }
};

RLCORE_ALGORITHM_END
RLCORE_END
