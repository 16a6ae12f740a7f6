// Loss aggregation (loss_agg_mode): token-mean, seq-mean-token-mean, seq-mean-token-sum and their relatives.
//
// The protocol of an aggregation: one weight per row.
//
//   struct sqrt_length {
//     double weight(row_info row, const global_counts& step) const noexcept {
//       return 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
//     }
//   };
//
// An aggregation whose weight is the same for rows of any length may say so, `static constexpr bool ignores_length =
// true`: the tokens are then counted in the pass that computes them.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/core/settings.hpp"

RLCORE_BEGIN
/// Counts over a whole optimizer step: all micro-batches and all ranks. Count every row before the first backward pass
/// and hand the same object to every micro-batch, so the loss does not depend on how the step is split. Integers and
/// batches do not convert: see loss_counts().
class global_counts {
 public:
  RLCORE_FN global_counts() = default;

  /// Adds one row of the step with this many live tokens; 0 is a row that is masked out entirely. Throws
  /// std::invalid_argument for a negative number, and where the sum of all rows is no 64-bit integer.
  void add_row(std::int64_t live_tokens) {
    if (live_tokens < 0 || __builtin_add_overflow(tokens_, live_tokens, &tokens_)) refuse(live_tokens);
    sequences_ += live_tokens > 0;
    rows_ += 1;
    longest_ = detail::greatest(longest_, live_tokens);
  }
  /// Joins the counts of another rank or of another part of the step.
  RLCORE_FN global_counts& operator+=(const global_counts& other) noexcept {
    tokens_ += other.tokens_;
    sequences_ += other.sequences_;
    rows_ += other.rows_;
    longest_ = detail::greatest(longest_, other.longest_);
    return *this;
  }
  /// From integers that were summed (longest: maximised) over ranks by the caller.
  RLCORE_FN static global_counts reduced(std::int64_t tokens, std::int64_t sequences, std::int64_t rows,
                                         std::int64_t longest) noexcept {
    global_counts c;
    c.tokens_ = tokens, c.sequences_ = sequences, c.rows_ = rows, c.longest_ = longest;
    return c;
  }

  RLCORE_FN std::int64_t tokens() const noexcept { return tokens_; }        ///< N*: live tokens
  RLCORE_FN std::int64_t sequences() const noexcept { return sequences_; }  ///< S*: rows with at least one live token
  RLCORE_FN std::int64_t rows() const noexcept { return rows_; }            ///< rows, the empty ones included
  RLCORE_FN std::int64_t longest() const noexcept { return longest_; }      ///< live tokens of the longest row

 private:
  [[noreturn]] static void refuse(std::int64_t live_tokens) {
    throw std::invalid_argument("rlcore: global_counts::add_row: a row of " + std::to_string(live_tokens) +
                                " tokens; expected 0 or more, and less than 2^63 in all rows together");
  }
  std::int64_t tokens_ = 0, sequences_ = 0, rows_ = 0, longest_ = 0;
};

RLCORE_ALGORITHM_BEGIN
/// The row data that an aggregation reads; never empty (empty rows have no weight).
struct row_info {
  std::int64_t tokens;     ///< live tokens of the row
  std::int64_t index = 0;  ///< of the row in this batch; only its parity means anything, for pairs
};

/// The loss is sum over rows of weight(row) times the sum over the row's live tokens of the pieces' values. A row of
/// weight 0 is skipped and not counted.
template <class A>
concept aggregation = requires(const A a, row_info row, const global_counts& step) {
  { a.weight(row, step) } noexcept -> std::convertible_to<double>;
};

template <class A>
inline constexpr bool ignores_length = requires { requires A::ignores_length; };

/// 1: no denominator (verl "token-sum").
struct token_sum {
  static constexpr bool ignores_length = true;
  /// Weight of each live token of the row.
  double weight(row_info, const global_counts&) const noexcept { return 1.0; }
};

/// 1 / N*: the mean over all live tokens of the step (DAPO; verl "token-mean", TRL "dapo").
struct token_mean {
  static constexpr bool ignores_length = true;
  /// Weight of each live token of the row; N* counts the live tokens of the step.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.tokens()); }
};

/// 1 / S*: the mean over non-empty sequences of a term that each sequence has once (GSPO).
struct sequence_mean {
  static constexpr bool per_sequence = true;
  /// Weight of the term of a sequence; S* counts the rows of the step that have live tokens.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / static_cast<double>(step.sequences());
  }
};

/// 2 / rows: the mean over pairs (DPO, reward models).
struct pair_mean {
  static constexpr bool per_pair = true;
  /// Weight of the term of a pair; a step of r rows has r / 2 pairs.
  double weight(row_info, const global_counts& step) const noexcept { return 2.0 / static_cast<double>(step.rows()); }
};

/// 1: for terms that couple all rows of the step and are means already (AOT).
struct batch_total {
  static constexpr bool per_batch = true;
  /// Weight of the one term of the batch.
  double weight(row_info, const global_counts&) const noexcept { return 1.0; }
};

/// 1 / S*: the mean over non-empty sequences of each one's token sum (verl "seq-mean-token-sum").
struct sequence_mean_token_sum {
  static constexpr bool ignores_length = true;
  /// Weight of each live token of the row; S* counts the rows of the step that have live tokens.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / static_cast<double>(step.sequences());
  }
};

/// 1 / (S* n): the mean over non-empty sequences of each one's token mean (GRPO; verl "seq-mean-token-mean", which adds
/// 1e-8 to n).
struct sequence_mean_token_mean {
  static constexpr bool averages_tokens = true;  // so it also is the mean of what a sequence has once
  /// Weight of each of the row's n live tokens; S* counts the rows of the step that have live tokens.
  double weight(row_info row, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.sequences()) * static_cast<double>(row.tokens));
  }
};

/// 1 / (rows n): as sequence_mean_token_mean, but an answer that is masked out entirely (truncated, rejected) still
/// counts, so masking it shrinks the step and does not raise the weight of the remaining answers. TRL's "grpo", and
/// verl's "seq-mean-token-mean" where it is given the global batch size.
struct row_mean_token_mean {
  static constexpr bool averages_tokens = true;
  /// Weight of each of the row's n live tokens.
  double weight(row_info row, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.rows()) * static_cast<double>(row.tokens));
  }
};

/// 1 / rows: the same for token sums (verl "seq-mean-token-sum" with the global batch size).
struct row_mean_token_sum {
  static constexpr bool ignores_length = true;
  /// Weight of each live token, the same for all rows.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.rows()); }
};

/// 1 / rows: the same for a term that each sequence has once. The term of a row without tokens is that of score 0; it
/// has no gradient (TRL's RLOOTrainer and KTOTrainer, OpenRLHF's KTO).
struct row_mean {
  static constexpr bool per_sequence = true, counts_empty = true;
  /// Weight of the term of a row, the same for all rows.
  double weight(row_info, const global_counts& step) const noexcept { return 1.0 / static_cast<double>(step.rows()); }
};

/// 1 / (S* length): like sequence_mean_token_mean, but every sequence is divided by the same length, usually the
/// longest response allowed, so long answers are not diluted (Dr. GRPO, Liu et al. 2025; verl
/// "seq-mean-token-sum-norm" without a global batch size).
struct fixed_length {
  static constexpr bool ignores_length = true;
  double length = 0;

  constexpr void check_settings() const { check_setting("fixed_length", "length", length, setting::positive); }

  /// Weight of each live token, the same for all rows.
  double weight(row_info, const global_counts& step) const noexcept {
    return 1.0 / (static_cast<double>(step.sequences()) * length);
  }
};

using seq_mean_token_sum_norm = fixed_length;  ///< verl's name

/// 1 / (rows length): the same, but an answer that is masked out entirely still counts, so masking it does not raise
/// the weight of the rest. TRL's "dr_grpo", and verl's "seq-mean-token-sum-norm" where it is given the global batch
/// size.
struct row_mean_fixed_length {
  static constexpr bool ignores_length = true;
  double length = 0;

  constexpr void check_settings() const { check_setting("row_mean_fixed_length", "length", length, setting::positive); }

  /// Weight of each live token, the same for all rows.
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

  /// Weight of each live token, the same for all rows.
  double weight(row_info, const global_counts&) const noexcept { return 1.0 / length; }
};

/// 1 / N_chosen for the first row of every pair, 0 for the second: the mean over all tokens of the chosen responses
/// (the NLL term of CPO, RPO and ORPO). `chosen` counts the chosen rows of the whole optimizer step.
struct chosen_token_mean {
  global_counts chosen;
  /// Weight of each live token of the row; rows with an even index are the chosen ones.
  double weight(row_info row, const global_counts&) const noexcept {
    return row.index % 2 == 0 ? 1.0 / static_cast<double>(chosen.tokens()) : 0.0;
  }
};

/// 1 / (S_chosen n) for the first row of every pair, 0 for the second: the mean over the chosen responses of each one's
/// token mean (OpenRLHF's nll_loss_coef beside DPO). `chosen` counts the chosen rows of the whole optimizer step. The
/// mean over all their tokens is chosen_token_mean.
struct chosen_sequence_mean {
  global_counts chosen;
  /// Weight of each live token of the row; rows with an even index are the chosen ones.
  double weight(row_info row, const global_counts&) const noexcept {
    return row.index % 2 == 0 ? 1.0 / (static_cast<double>(chosen.sequences()) * static_cast<double>(row.tokens)) : 0.0;
  }
};

/// Type-erased aggregation of up to one number, e.g. fixed_length{2048}: a loop compiled with it serves all
/// aggregations, for one indirect call per row. Throws std::invalid_argument, as the aggregation does, for invalid
/// settings.
class any_aggregation {
 public:
  constexpr any_aggregation() = default;
  /// Takes a copy of the aggregation.
  template <class A>
    requires(aggregation<A> && !std::is_same_v<A, any_aggregation>)
  any_aggregation(const A& a) {
    static_assert(sizeof(A) <= sizeof(double) && std::is_trivially_copyable_v<A>,
                  "rlcore: any_aggregation holds aggregations of up to one number");
    detail::check_part(a);
    std::memcpy(held_, &a, sizeof a);
    weight_ = [](const std::byte* held, row_info row, const global_counts& step) noexcept -> double {
      A copy;
      std::memcpy(static_cast<void*>(&copy), held, sizeof copy);
      return copy.weight(row, step);
    };
  }

  /// Weight of each live token of the row.
  double weight(row_info row, const global_counts& step) const noexcept { return weight_(held_, row, step); }

 private:
  alignas(double) std::byte held_[sizeof(double)]{};
  double (*weight_)(const std::byte*, row_info, const global_counts&) noexcept =
      [](const std::byte*, row_info row, const global_counts& step) noexcept -> double {
    return token_mean{}.weight(row, step);
  };
};

RLCORE_ALGORITHM_END
RLCORE_END
