// Centred in the group, whitened over the tokens of the batch.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/row_normalization.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// x = R - mean of the group, then A = (x - m) / sqrt(v + epsilon) with m and v over the tokens of the batch: every row
/// counts as often as it has tokens (REINFORCE++-baseline, Hu 2025; verl). OpenRLHF's reinforce_baseline puts the KL
/// penalty between the two steps: compose group_relative{.normalize_by_std = false}, token_rewards and
/// reinforce_plus_plus.
///
/// Only scored rows count; a NaN reward (unscored row) gets 0. Where all rewards of all groups are equal, A = 0.
struct reinforce_plus_plus_baseline {
  singleton_group singleton = singleton_group::reward;
  whitening whiten{};

  /// `lengths`: response tokens of each row.
  template <class Rewards, class Groups, class Lengths, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, const Lengths& lengths, Advantages&& advantages) const {
    const scratch_vector<double> reward = detail::read_numbers("reward", rewards);
    const scratch_vector<double> length = detail::read_lengths(lengths, reward.size());
    scratch_vector<double> x =
        detail::each_scored_group(reward, detail::group_rows(static_cast<extent_t>(reward.size()), groups),
                                  [this](std::span<const double> r, std::span<const std::size_t>, std::span<double> a) {
                                    const double mean = r.size() > 1 ? detail::group_summary(r).mean
                                                        : singleton == singleton_group::reward ? 0.0
                                                                                               : r[0];
                                    for (std::size_t k = 0; k < r.size(); ++k) a[k] = r[k] - mean;
                                  });
    for (std::size_t i = 0; i < x.size(); ++i)
      if (reward[i] != reward[i]) x[i] = reward[i];  // still unscored
    row_normalization{whiten}.normalize(x, length);
    detail::write_numbers("advantages", x, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
