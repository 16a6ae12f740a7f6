// TRL's replay buffer score and DeepSeek-V3.2's off-policy sequence mask.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/selection/tokens.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The score by which TRL's replay buffer keeps groups and draws them again in proportion: std(R) sum |A| over the
/// `group_size` consecutive rows of a prompt, std with n - 1. A group whose rewards are all equal has exactly 0 and is
/// not stored. scores has one entry per group. Throws std::invalid_argument if sizes do not fit.
template <class Rewards, class Advantages, class Scores>
void group_replay_scores(const Rewards& rewards, const Advantages& advantages, std::int64_t group_size,
                         Scores&& scores) {
  const auto reward = as_view<1>(rewards);
  const auto advantage = as_view<1>(advantages);
  const auto out = as_view<1>(scores);
  using result = typename decltype(out)::value_type;
  const extent_t rows = reward.shape[0], size = static_cast<extent_t>(group_size);
  if (advantage.shape != reward.shape)
    throw std::invalid_argument("rlcore: rewards are " + to_string<1>(reward.shape) + ", advantages are " +
                                to_string<1>(advantage.shape));
  if (size < 1 || rows % size != 0)
    throw std::invalid_argument("rlcore: " + std::to_string(rows) + " rewards do not divide into groups of " +
                                std::to_string(size));
  if (out.shape[0] != rows / size)
    throw std::invalid_argument("rlcore: there are " + std::to_string(rows / size) + " groups, scores are " +
                                to_string<1>(out.shape));
  for (extent_t g = 0; g < rows / size; ++g) {
    double sum = 0, absolute = 0, squares = 0;
    bool flat = true;
    for (extent_t i = g * size; i < (g + 1) * size; ++i) {
      sum += static_cast<double>(reward(i)), absolute += std::abs(static_cast<double>(advantage(i)));
      flat = flat && reward(i) == reward(g * size);
    }
    const double mean = sum / static_cast<double>(size);
    for (extent_t i = g * size; i < (g + 1) * size; ++i) {
      const double d = static_cast<double>(reward(i)) - mean;
      squares += d * d;
    }
    out(g) = flat ? result(0) : static_cast<result>(std::sqrt(squares / static_cast<double>(size - 1)) * absolute);
  }
}

/// (sum over a group of |A|) * std(rewards), std with n - 1: the key by which TRL's GRPO with a replay buffer keeps and
/// draws groups. Exactly 0 for a group of one or of equal rewards, NaN if a reward is. Throws std::invalid_argument if
/// sizes differ.
template <class T>
double replay_priority(std::span<const T> advantages, std::span<const T> rewards) {
  if (advantages.size() != rewards.size())
    throw std::invalid_argument("rlcore: advantages are [" + std::to_string(advantages.size()) + "], rewards are [" +
                                std::to_string(rewards.size()) + "]");
  bool equal = true;
  double sum = 0, mean = 0, squares = 0;
  for (const T r : rewards) equal = equal && r == rewards[0], mean += static_cast<double>(r);
  if (equal) return 0;
  const auto n = static_cast<double>(rewards.size());
  mean /= n;
  for (const T r : rewards) squares += (static_cast<double>(r) - mean) * (static_cast<double>(r) - mean);
  for (const T a : advantages) sum += std::abs(static_cast<double>(a));
  return sum * std::sqrt(squares / (n - 1));
}

/// The off-policy sequence mask of DeepSeek-V3.2 (TRL off_policy_mask_threshold): a token is selected if its advantage
/// is not negative, or if mean over the row's tokens of (behaviour - logp) <= threshold. token_filter{surrogate} then
/// drops the negative samples that the policy would no longer produce; they still count in the denominator. Each row is
/// decided independently, so any part of a step may be processed alone.
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
