// GDPO (Liu et al. 2026): several rewards, each normalised in its group before they are added.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = normalised sum_k w_k A_k, A_k the group_relative advantage of reward k alone: GDPO (Liu et al. 2026). A reward
/// with large variance no longer dominates the sum.
///
/// The last step is over rows (TRL's normalize_then_sum, the defaults) or, with lengths, over tokens (verl: .each = {},
/// .last = {whitening{}}). A NaN reward was not given: it is left out of its own statistics and of the sum; a reward
/// given to only one row of a group adds nothing. A row without any reward is unscored and gets 0.
struct gdpo {
  group_relative each{.epsilon = 1e-4, .singleton = singleton_group::zero};
  row_normalization last{};

  /// `rewards` is [rows, rewards], `weights` has one value per reward.
  template <class Rewards, class Weights, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Weights& weights, const Groups& groups, Advantages&& advantages) const {
    scratch_vector<double> x = weighted_sum(rewards, weights, groups);
    last.normalize(x, {});
    detail::write_numbers("advantages", x, advantages);
  }
  /// The same with the last step over tokens: `lengths` has the response tokens of each row.
  template <class Rewards, class Weights, class Groups, class Lengths, class Advantages>
  void operator()(const Rewards& rewards, const Weights& weights, const Groups& groups, const Lengths& lengths,
                  Advantages&& advantages) const {
    scratch_vector<double> x = weighted_sum(rewards, weights, groups);
    last.normalize(x, detail::read_lengths(lengths, x.size()));
    detail::write_numbers("advantages", x, advantages);
  }

 private:
  template <class Rewards, class Weights, class Groups>
  scratch_vector<double> weighted_sum(const Rewards& rewards, const Weights& weights, const Groups& groups) const {
    const auto reward = as_view<2>(rewards);
    const scratch_vector<double> weight = detail::read_numbers("weight", weights);
    if (reward.shape[1] != static_cast<extent_t>(weight.size()))
      throw std::invalid_argument("rlcore: rewards are " + to_string(reward.shape) + ", weights are [" +
                                  std::to_string(weight.size()) + "]");
    const auto rows = static_cast<std::size_t>(reward.shape[0]);
    scratch_vector<double> sum(rows, std::nan("")), one(rows);
    for (extent_t k = 0; k < reward.shape[1]; ++k) {
      const auto column = vector_view<const typename decltype(reward)::value_type>(
          reward.data + k * reward.stride[1], {reward.shape[0]}, {reward.stride[0]});
      each(column, groups, one);
      for (std::size_t i = 0; i < rows; ++i) {
        if (std::isnan(static_cast<double>(column(static_cast<extent_t>(i))))) continue;
        sum[i] = (std::isnan(sum[i]) ? 0.0 : sum[i]) + weight[static_cast<std::size_t>(k)] * one[i];
      }
    }
    return sum;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
