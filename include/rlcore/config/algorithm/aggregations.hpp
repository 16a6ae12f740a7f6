// actor.loss_agg_mode: what a token weighs in the loss, a row per word.
#pragma once

#include <string_view>

#include "rlcore/config/algorithm/word_table.hpp"
#include "rlcore/objective/aggregation/any_aggregation.hpp"
#include "rlcore/objective/aggregation/fixed_length.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_mean.hpp"
#include "rlcore/objective/aggregation/sequence_mean_token_sum.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"

RLCORE_BEGIN
namespace trainer {

/// What a word may need besides itself.
struct aggregation_settings {
  double length = 0;  ///< loss_scale_factor, or the longest response allowed
};

namespace named {

/// Every token of the step weighs the same.
struct token_mean {
  static constexpr std::string_view word = "token-mean";
  static any_aggregation compose(const aggregation_settings&) { return rlcore::token_mean{}; }
};
/// The mean over sequences of their tokens' sums.
struct seq_mean_token_sum {
  static constexpr std::string_view word = "seq-mean-token-sum";
  static any_aggregation compose(const aggregation_settings&) { return sequence_mean_token_sum{}; }
};
/// The mean over sequences of their tokens' means.
struct seq_mean_token_mean {
  static constexpr std::string_view word = "seq-mean-token-mean";
  static any_aggregation compose(const aggregation_settings&) { return sequence_mean_token_mean{}; }
};
/// The same with one length for all.
struct seq_mean_token_sum_norm {
  static constexpr std::string_view word = "seq-mean-token-sum-norm";
  static any_aggregation compose(const aggregation_settings& s) { return fixed_length{s.length}; }
};

}  // namespace named

/// The words of loss_agg_mode.
using aggregation_words = word_table<named::token_mean, named::seq_mean_token_sum, named::seq_mean_token_mean,
                                     named::seq_mean_token_sum_norm>;

}  // namespace trainer
RLCORE_END
