// The integers that every denominator is made of.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/order.hpp"

RLCORE_BEGIN

/// Counts over a whole optimizer step: all micro-batches and all ranks. Count every row before the first backward pass
/// and hand the same object to every micro-batch; that is what makes a loss independent of how the step is cut. There
/// is no conversion from an integer and none from a batch: see loss_counts().
class global_counts {
 public:
  RLCORE_FN global_counts() = default;

  /// Adds one row of the step with so many live tokens; 0 is a row that is masked out entirely.
  RLCORE_FN void add_row(std::int64_t live_tokens) noexcept {
    tokens_ += live_tokens;
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
  std::int64_t tokens_ = 0, sequences_ = 0, rows_ = 0, longest_ = 0;
};

RLCORE_END
