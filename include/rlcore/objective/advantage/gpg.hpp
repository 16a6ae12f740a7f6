// Group policy gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"
#include "rlcore/objective/advantage/singleton_group.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What gpg counts as rows that carry a signal.
enum class gpg_count : std::uint8_t {
  informative_groups,  ///< rows of groups whose rewards differ: the paper's B - M
  nonzero_rewards,     ///< rows with R != 0: verl's gpg; with rewards of +-1 that is every row
};

/// A = alpha (R - mean) / normalizer within each group, alpha = rows / rows that carry a signal (at least 1): GPG (Chu
/// et al. 2025). So batches with many solved or hopeless prompts do not shrink the gradient.
///
/// Only scored rows count. Equal rewards give exactly 0; a NaN reward (unscored row) is left out and gets 0. A single
/// scored row gets alpha R / normalizer by default, as in verl.
struct gpg {
  gpg_count count = gpg_count::informative_groups;
  double normalizer = 1.0;
  singleton_group singleton = singleton_group::reward;

  constexpr void check_settings() const { check_setting("gpg", "normalizer", normalizer, setting::positive); }

  /// `groups`: the number of consecutive rows in each group, or a vector with any integer that names the prompt of each
  /// row. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups, class Advantages>
  void operator()(const Rewards& rewards, const Groups& groups, Advantages&& advantages) const {
    const scratch_vector<double> reward = detail::read_numbers("reward", rewards);
    std::size_t scored = 0, signal = 0;
    scratch_vector<double> result =
        detail::each_scored_group(reward, detail::group_rows(static_cast<extent_t>(reward.size()), groups),
                                  [&](std::span<const double> r, std::span<const std::size_t>, std::span<double> a) {
                                    const detail::group_summary s(r);
                                    const bool alone = r.size() == 1;
                                    scored += r.size();
                                    if (count == gpg_count::nonzero_rewards)
                                      for (const double x : r) signal += x != 0.0;
                                    else if (!s.flat || (alone && singleton == singleton_group::reward))
                                      signal += r.size();
                                    for (std::size_t k = 0; k < r.size(); ++k)
                                      a[k] = !alone ? r[k] - s.mean : singleton == singleton_group::reward ? r[k] : 0.0;
                                  });
    const double alpha = static_cast<double>(scored) / static_cast<double>(detail::greatest<std::size_t>(1, signal));
    for (double& a : result) a = alpha * a / normalizer;
    detail::write_numbers("advantages", result, advantages);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
