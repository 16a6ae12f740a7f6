// Centred in the group, scaled in the batch.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/row_normalization.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = (R - mean of the group) / (std of all rewards of the batch + epsilon), std with n - 1: TRL's
/// scale_rewards="batch" (after Liu et al. 2025b, "Part I: Tricks or Traps?"). Easy and hard groups keep their weight.
///
/// Groups with equal rewards get exactly 0; if all rewards of the batch are equal, all rows do. A NaN reward (unscored
/// row) is left out and gets 0. A single scored row of a group gets 0, or its reward through the same division.
struct group_mean_batch_std {
  double epsilon = 1e-4;
  singleton_group singleton = singleton_group::zero;

  constexpr void check_settings() const {
    check_setting("group_mean_batch_std", "epsilon", epsilon, setting::coefficient);
  }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    const scratch_vector<double> reward = detail::read_numbers("reward", rewards);
    scratch_vector<double> scored;
    for (const double r : reward)
      if (r == r) scored.push_back(r);
    const detail::group_summary batch(scored);
    scratch_vector<double> result =
        detail::each_scored_group(reward, detail::group_rows(static_cast<extent_t>(reward.size()), groups),
                                  [&](std::span<const double> r, std::span<const std::size_t>, std::span<double> a) {
                                    if (batch.flat) return;  // also where a row is alone: no deviation to divide by
                                    const bool keep = r.size() == 1 && singleton == singleton_group::reward;
                                    const double mean = keep ? 0.0 : detail::group_summary(r).mean;
                                    for (std::size_t k = 0; k < r.size(); ++k)
                                      if (r[k] != mean) a[k] = (r[k] - mean) / (batch.deviation + epsilon);
                                  });
    detail::write_numbers("advantages", result, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
