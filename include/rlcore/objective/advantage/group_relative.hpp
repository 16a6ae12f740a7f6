// Advantages relative to the answers of a prompt: GRPO, its relatives, pass@k.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/whitening.hpp"

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
