// Loss aggregation (actor.loss_agg_mode): the weight of a token in the loss, one row per mode.
#pragma once

#include <string_view>

#include "rlcore/config/algorithm/word_table.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/algorithm/verl.hpp"

RLCORE_BEGIN
namespace train {

/// Settings of the aggregation modes.
struct aggregation_settings {
  double length = 0;  ///< loss_scale_factor, or the longest response allowed
  verl::version version = verl::newest;
  /// Whether a sequence without tokens counts; it does in every version except verl 0.6.1.
  bool counts_empty() const noexcept { return version != verl::version::v0_6_1; }
};

namespace named {

/// Mean over all tokens of the step.
struct token_mean {
  static constexpr std::string_view word = "token-mean";
  static any_aggregation compose(const aggregation_settings&) { return rlcore::token_mean{}; }
};
/// Sum over tokens; the loss grows with the batch.
struct token_sum {
  static constexpr std::string_view word = "token-sum";
  static constexpr verl::version since = verl::version::v0_9_1;
  static any_aggregation compose(const aggregation_settings&) { return rlcore::token_sum{}; }
};
/// The mean over sequences of their tokens' sums.
struct seq_mean_token_sum {
  static constexpr std::string_view word = "seq-mean-token-sum";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.counts_empty()) return row_mean_token_sum{};
    return sequence_mean_token_sum{};
  }
};
/// The mean over sequences of their tokens' means.
struct seq_mean_token_mean {
  static constexpr std::string_view word = "seq-mean-token-mean";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.counts_empty()) return row_mean_token_mean{};
    return sequence_mean_token_mean{};
  }
};
/// The same with one length for all; before verl 0.8.0 not divided by the number of sequences.
struct seq_mean_token_sum_norm {
  static constexpr std::string_view word = "seq-mean-token-sum-norm";
  static any_aggregation compose(const aggregation_settings& s) {
    if (s.version < verl::version::v0_8_0) return fixed_length_unaveraged{s.length};
    return row_mean_fixed_length{s.length};
  }
};

}  // namespace named

/// Values of loss_agg_mode.
using aggregation_words = word_table<named::token_mean, named::token_sum, named::seq_mean_token_sum,
                                     named::seq_mean_token_mean, named::seq_mean_token_sum_norm>;

}  // namespace train
RLCORE_END
