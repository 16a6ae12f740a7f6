// The plain sum over tokens.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1: no denominator (verl "token-sum").
struct token_sum {
  static constexpr bool ignores_length = true;
  /// What each live token of the row weighs.
  double weight(row_info, const global_counts&) const noexcept { return 1.0; }
};

RLCORE_ALGORITHM_END
RLCORE_END
