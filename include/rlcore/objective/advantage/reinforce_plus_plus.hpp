// REINFORCE++, and REINFORCE++-baseline.
#pragma once

#include <cstddef>
#include <span>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/exec/serial.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// G_t = r_t + gamma G_{t+1}, then A = whitened G (REINFORCE++, Hu 2025). The normalisation is over the tokens of the
/// batch, never over a group. Defaults are verl's; OpenRLHF's reinforce has .turns = turn_policy::discount and
/// .whiten = {.guard = variance_guard::floor, .sample_variance = false}.
///
/// Shapes and masked slots: see discounted_return and whitening. Unscored rows must be masked before
/// (objective/filter.hpp): their tokens would move the mean of all others. `returns`, if given, are those before
/// whitening.
struct reinforce_plus_plus {
  double gamma = 1.0;
  turn_policy turns = turn_policy::skip;
  whitening whiten{};

  constexpr void check_settings() const { check_setting("reinforce_plus_plus", "gamma", gamma, setting::fraction); }

  /// Writes the returns and the whitened advantages; `exec` distributes the rows.
  template <executor Executor, class Rewards, class Advantages, class Returns>
  RLCORE_FN void operator()(const Executor& exec, const Rewards& rewards, const token_mask& mask,
                            Advantages&& advantages, Returns&& returns) const {
    discounted_return{gamma, turns}(exec, rewards, mask, returns);
    whiten(exec, returns, mask, advantages);
  }
  /// The same on the calling thread.
  template <class Rewards, class Advantages, class Returns>
    requires(!executor<Rewards>)
  RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask, Advantages&& advantages,
                            Returns&& returns) const {
    (*this)(serial{}, rewards, mask, advantages, returns);
  }
  /// Without returns.
  template <class Rewards, class Advantages>
  RLCORE_FN void operator()(const Rewards& rewards, const token_mask& mask, Advantages&& advantages) const {
    (*this)(serial{}, rewards, mask, advantages, advantages);
  }
};

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
