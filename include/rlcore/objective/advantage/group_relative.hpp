// Rewards relative to the other answers to the same prompt.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A = (R - mean) / (std + epsilon) within each group of rows that answer the same prompt, std with n - 1 (GRPO, Shao
/// et al. 2024). With normalize_by_std = false, A = R - mean (Dr. GRPO, Liu et al. 2025). The defaults are verl's;
/// epsilon is 1e-4 in TRL and 1e-9 in OpenRLHF.
///
/// A group whose rewards are all equal gets exactly 0, decided by comparing the rewards and not by a rounded deviation.
/// A NaN reward marks an unscored row: it is left out of the statistics and gets 0. Statistics are two-pass and in
/// double. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
struct group_relative {
  bool normalize_by_std = true;
  double epsilon = 1e-6;
  singleton_group singleton = singleton_group::reward;

  constexpr void check_settings() const { check_setting("group_relative", "epsilon", epsilon, setting::coefficient); }

  /// `groups`: the number of consecutive rows in each group; or a vector with any integer that names the prompt of each
  /// row, then the rows of a group may be anywhere.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    detail::outcome_advantages(rewards, groups, advantages, [this](auto... group) { one_group(group...); });
  }

  /// A single group of scored rewards.
  void one_group(std::span<const double> reward, std::span<const std::size_t>, std::span<double> advantage) const {
    if (reward.size() == 1) {
      if (singleton == singleton_group::reward) advantage[0] = normalize_by_std ? reward[0] / (1 + epsilon) : reward[0];
      return;
    }
    const detail::group_summary s(reward);
    if (s.flat) return;
    for (std::size_t k = 0; k < reward.size(); ++k)
      advantage[k] = (reward[k] - s.mean) / (normalize_by_std ? s.deviation + epsilon : 1.0);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
