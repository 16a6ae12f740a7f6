// The denominator of a likelihood term beside a preference loss.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / N_chosen for the first row of every pair, 0 for the second: the mean over all tokens of the chosen responses
/// (the NLL term of CPO, RPO and ORPO). `chosen` counts the chosen rows of the whole optimizer step.
struct chosen_token_mean {
  global_counts chosen;
  /// What each live token of the row weighs; rows with an even index are the chosen ones.
  double weight(row_info row, const global_counts&) const noexcept {
    return row.index % 2 == 0 ? 1.0 / static_cast<double>(chosen.tokens()) : 0.0;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
