// On-policy RL with the optimal reward baseline.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = R - sum_j n_j R_j / sum_j n_j over the group, n_j the number of response tokens (OPO, Hao et al. 2025): the
/// baseline of least variance if the squared norm of a row's score grows with its length.
///
/// Equal rewards give exactly 0, so do rewards of a group without any token. A NaN reward (unscored row) is left out
/// and gets 0. A single scored row gets its reward by default, as in verl.
struct opo {
  singleton_group singleton = singleton_group::reward;

  /// `lengths`: response tokens of each row.
  template <class Rewards, class Groups, class Lengths, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, const Lengths& lengths, Advantages&& advantages) const {
    const scratch_vector<double> length =
        detail::read_lengths(lengths, static_cast<std::size_t>(as_view(rewards).shape[0]));
    detail::outcome_advantages(
        rewards, groups, advantages,
        [&](std::span<const double> reward, std::span<const std::size_t> row, std::span<double> advantage) {
          one_group(reward, row, detail::span_of(length), advantage);
        });
  }

  /// A single group: `row` says which rows its scored rewards belong to, `length` has the tokens of every row of the
  /// batch. `advantage` holds zeros before the call and keeps them where the rewards are equal or there are no tokens.
  void one_group(std::span<const double> reward, std::span<const std::size_t> row, std::span<const double> length,
                 std::span<double> advantage) const {
    if (reward.size() == 1) {
      if (singleton == singleton_group::reward) advantage[0] = reward[0];
      return;
    }
    double tokens = 0, weighted = 0;
    for (std::size_t k = 0; k < row.size(); ++k) tokens += length[row[k]], weighted += length[row[k]] * reward[k];
    if (tokens == 0 || detail::group_summary(reward).flat) return;
    for (std::size_t k = 0; k < row.size(); ++k) advantage[k] = reward[k] - weighted / tokens;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
