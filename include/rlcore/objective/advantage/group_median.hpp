// Rewards against the median of the group.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = R - median of the group: one outlier among the rewards does not move the baseline of all others. With
/// normalize_by_deviation, divided by mean |R - median| + epsilon, which is 0 only if all rewards are equal (the median
/// of the deviations is 0 as soon as half of them are). No system has it.
///
/// Equal rewards give exactly 0; a NaN reward (unscored row) is left out and gets 0; so does a single scored row, or it
/// gets its reward.
struct group_median {
  bool normalize_by_deviation = false;
  double epsilon = 1e-6;
  singleton_group singleton = singleton_group::zero;

  constexpr void check_settings() const { check_setting("group_median", "epsilon", epsilon, setting::coefficient); }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    detail::outcome_advantages(rewards, groups, advantages, [this](auto... group) { one_group(group...); });
  }

  /// A single group of scored rewards; `advantage` holds zeros before the call and keeps them where the rewards are
  /// equal.
  void one_group(std::span<const double> reward, std::span<const std::size_t>, std::span<double> advantage) const {
    if (reward.size() == 1) {
      if (singleton == singleton_group::reward) advantage[0] = reward[0];
      return;
    }
    if (detail::group_summary(reward).flat) return;
    scratch_vector<double> sorted(reward.begin(), reward.end());
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    const double median =
        sorted.size() % 2 == 1 ? sorted[half] : sorted[half - 1] + (sorted[half] - sorted[half - 1]) / 2;
    double deviation = 0;
    for (const double r : reward) deviation += std::abs(r - median);
    deviation /= static_cast<double>(reward.size());
    for (std::size_t k = 0; k < reward.size(); ++k)
      advantage[k] = (reward[k] - median) / (normalize_by_deviation ? deviation + epsilon : 1.0);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
