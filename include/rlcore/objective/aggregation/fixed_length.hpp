// The constant denominator of Dr. GRPO.
#pragma once

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation/aggregation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// 1 / (S* length): like sequence_mean_token_mean, but every sequence is divided by the same length, usually the
/// longest response allowed, so long answers are not diluted (Dr. GRPO, Liu et al. 2025; verl
/// "seq-mean-token-sum-norm" without a global batch size).
struct fixed_length {
  static constexpr bool ignores_length = true;
  double length = 0;

  constexpr void check_settings() const { check_setting("fixed_length", "length", length, setting::positive); }

  /// What each live token of the row weighs, whatever the row.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.sequences()) * length);
  }
};

using seq_mean_token_sum_norm = fixed_length;  ///< verl's word

/// 1 / (rows length): the same, but an answer that is masked out entirely still counts, so that masking it does not
/// make the others weightier. TRL's "dr_grpo", and verl's "seq-mean-token-sum-norm" where it is given the global batch
/// size.
struct row_mean_fixed_length {
  static constexpr bool ignores_length = true;
  double length = 0;

  constexpr void check_settings() const { check_setting("row_mean_fixed_length", "length", length, setting::positive); }

  /// What each live token of the row weighs, whatever the row.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.rows()) * length);
  }
};

/// 1 / length: what verl computed under "seq-mean-token-sum-norm" before it divided by the number of sequences. The
/// loss grows with the batch; for reproducing old runs only.
struct fixed_length_unaveraged {
  static constexpr bool ignores_length = true;
  double length = 0;

  constexpr void check_settings() const {
    check_setting("fixed_length_unaveraged", "length", length, setting::positive);
  }

  /// What each live token of the row weighs, whatever the row.
  double weight(row_info, const global_counts&) const noexcept { return 1.0 / length; }
};

RLCORE_ALGORITHM_END
RLCORE_END
