// Sequences that the policy has moved away from.
#pragma once

#include <cmath>
#include <cstddef>

#include "rlcore/objective/selection/mark_tokens.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The off-policy sequence mask of DeepSeek-V3.2 (TRL off_policy_mask_threshold): a token is selected if its advantage
/// is not negative, or if mean over the row's tokens of (behaviour - logp) <= threshold. token_filter{surrogate} then
/// drops the negative samples that the policy would no longer produce; they still count in the denominator. Rows are
/// judged by themselves, so any part of a step may be selected from alone.
struct off_policy_sequence {
  double threshold;
  field behaviour = field::rollout_logp;  ///< TRL takes field::old_logp where the sampler recorded nothing
  /// Tokens with a NaN behaviour log-prob count as difference 0 (TRL). Otherwise NaN is above any threshold.
  bool unscored_is_equal = false;
};

/// Writes field::selected of the batch: 1 where the token is selected, else 0.
template <class T>
void select(const off_policy_sequence& rule, const token_batch<T>& batch,
            const std::type_identity_t<token_field<T>>& selected) {
  const field reads = field::logp | field::advantage | rule.behaviour;
  mark_tokens<T>(batch, selected, reads, [&](extent_t, const live_row& row, std::span<double> keep) {
    double sum = 0;
    for (std::size_t k = 0; k < keep.size(); ++k) {
      const double difference = row[rule.behaviour][k] - row[field::logp][k];
      sum += rule.unscored_is_equal && std::isnan(difference) ? 0.0 : difference;
    }
    const bool on_policy = sum / static_cast<double>(keep.size()) <= rule.threshold;
    for (std::size_t k = 0; k < keep.size(); ++k) keep[k] = on_policy || row[field::advantage][k] >= 0 ? 1 : 0;
  });
}

RLCORE_ALGORITHM_END
RLCORE_END
