// The reward against the mean of the other answers.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = R - mean of the other rewards of the group = n / (n - 1) (R - mean): REINFORCE leave-one-out (Ahmadian et al.
/// 2024). Equal rewards give exactly 0, a NaN reward (unscored row) is left out and gets 0.
///
/// A single scored row gets 0 by default, as in verl's rloo_vectorized and in TRL; verl's rloo and nobody else gives it
/// its reward. TRL's normalize_advantages is row_normalization after this.
struct rloo {
  singleton_group singleton = singleton_group::zero;

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    detail::outcome_advantages(rewards, groups, advantages, [this](auto... group) { one_group(group...); });
  }

  /// A single group of scored rewards.
  void one_group(std::span<const double> reward, std::span<const std::size_t>, std::span<double> advantage) const {
    if (reward.size() == 1) {
      if (singleton == singleton_group::reward) advantage[0] = reward[0];
      return;
    }
    const detail::group_summary s(reward);
    const auto n = static_cast<double>(reward.size());
    for (std::size_t k = 0; k < reward.size(); ++k) advantage[k] = (reward[k] - s.mean) * (n / (n - 1));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
