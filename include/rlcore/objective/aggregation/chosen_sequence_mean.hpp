// The denominator of a likelihood term beside a preference loss, where every chosen answer weighs the same.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / (S_chosen n) for the first row of every pair, 0 for the second: the mean over the chosen responses of each one's
/// token mean (OpenRLHF's nll_loss_coef beside DPO). `chosen` counts the chosen rows of the whole optimizer step. The
/// mean over all their tokens is chosen_token_mean.
struct chosen_sequence_mean {
  global_counts chosen;
  /// What each live token of the row weighs; rows with an even index are the chosen ones.
  double weight(row_info row, const global_counts&) const noexcept {
    return row.index % 2 == 0 ? 1.0 / (static_cast<double>(chosen.sequences()) * static_cast<double>(row.tokens)) : 0.0;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
