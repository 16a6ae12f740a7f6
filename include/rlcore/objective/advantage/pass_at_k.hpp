// Credit only for what the best answer adds to the group.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/order.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The best row of a group gets R_max - R_second, divided by std + epsilon if normalize_by_std; all others get 0
/// (Pass@k policy optimization, Walder and Karkhanis 2025; verl's grpo_passk). Of equally good rows none gets anything.
///
/// A group with a single scored row has no second and gets 0 (verl raises an error). A NaN reward (unscored row) is
/// left out and gets 0.
struct pass_at_k {
  bool normalize_by_std = true;
  double epsilon = 1e-6;

  constexpr void check_settings() const { check_setting("pass_at_k", "epsilon", epsilon, setting::coefficient); }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    detail::outcome_advantages(rewards, groups, advantages, [this](auto... group) { one_group(group...); });
  }

  /// A single group of scored rewards; `advantage` holds zeros before the call, and only the best row's is written.
  void one_group(std::span<const double> reward, std::span<const std::size_t>, std::span<double> advantage) const {
    if (reward.size() < 2) return;
    std::size_t best = 0;
    for (std::size_t k = 1; k < reward.size(); ++k)
      if (reward[k] > reward[best]) best = k;
    double second = reward[best == 0 ? 1 : 0];
    for (std::size_t k = 0; k < reward.size(); ++k)
      if (k != best) second = detail::greatest(second, reward[k]);
    if (reward[best] == second) return;
    const double deviation = detail::group_summary(reward).deviation;
    advantage[best] = (reward[best] - second) / (normalize_by_std ? deviation + epsilon : 1.0);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
