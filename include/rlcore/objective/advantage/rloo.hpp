// RLOO, ReMax, OPO, GPG: rewards minus a baseline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/gae.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A = R - mean of the other rewards of the group = n / (n - 1) (R - mean): REINFORCE leave-one-out (Ahmadian et al.
/// 2024). Equal rewards give exactly 0, a NaN reward (unscored row) is left out and gets 0.
///
/// A single scored row gets 0 by default, as in verl's rloo_vectorized and in TRL; only verl's rloo gives it its
/// reward. TRL's normalize_advantages is row_normalization after this.
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

/// A_t = sum of the rewards from t on, minus the reward of the greedy answer to the same prompt (ReMax, Li et al.
/// 2024). Nothing is normalised.
///
/// rewards and advantages (which may be the same) are [rows, tokens], baselines has one value per row. Masked slots are
/// not read and get 0; unscored rows must be masked (objective/filter.hpp), or they get -baseline. Throws
/// std::invalid_argument for other shapes.
struct remax {
  static constexpr advantage_input reads = advantage_input::greedy_scores;
  turn_policy turns = turn_policy::skip;

  /// Writes A to `advantages`; `baselines` holds the rewards of the greedy answers.
  template <class Rewards, class Baselines, class Advantages>
  void operator()(const Rewards& rewards, const Baselines& baselines, const token_mask& mask,
                  Advantages&& advantages) const {
    const auto baseline = as_view<1>(baselines);
    const auto out = as_view<2>(advantages);
    using result = typename std::remove_cv_t<decltype(out)>::value_type;
    detail::check_per_row("baselines", baseline.shape[0], "advantages", out.shape);
    discounted_return{1.0, turns}(rewards, mask, out);
    for (extent_t i = 0; i < out.shape[0]; ++i)
      for (extent_t t = 0; t < out.shape[1]; ++t)
        if (token_block::live_bits(mask, i, t, 1) != 0)
          out(i, t) = static_cast<result>(static_cast<double>(out(i, t)) - static_cast<double>(baseline(i)));
  }
};

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
  /// batch. `advantage` holds zeros before the call and keeps them if the rewards are equal or the group has no tokens.
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
