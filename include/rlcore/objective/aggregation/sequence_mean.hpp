// Denominators of objectives that have one term per sequence or per pair.
#pragma once

#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / S*: the mean over non-empty sequences of a term that each sequence has once (GSPO).
struct sequence_mean {
  static constexpr bool per_sequence = true;
  /// What the term of a sequence weighs; S* counts the rows of the step that have live tokens.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / static_cast<double>(step.sequences());
  }
};

/// 2 / rows: the mean over pairs (DPO, reward models).
struct pair_mean {
  static constexpr bool per_pair = true;
  /// What the term of a pair weighs; a step of r rows has r / 2 pairs.
  double weight(row_info, const global_counts& step) const noexcept { return 2.0 / static_cast<double>(step.rows()); }
};

/// 1: for terms that couple all rows of the step and are means already (AOT).
struct batch_total {
  static constexpr bool per_batch = true;
  /// What the one term of the batch weighs.
  double weight(row_info, const global_counts&) const noexcept { return 1.0; }
};

RLCORE_ALGORITHM_END
RLCORE_END
