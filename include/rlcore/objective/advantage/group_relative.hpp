// Rewards relative to the other answers to the same prompt.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN

/// What a group with a single scored row gets: there is nothing to compare with.
enum class singleton_group : std::uint8_t {
  zero,    ///< advantage 0: no signal
  reward,  ///< mean 0 and deviation 1 are assumed, so the advantage is the reward itself (verl's grpo)
};

/// A = (R - mean) / (std + epsilon) within each group of rows that answer the same prompt, std with n - 1 (GRPO, Shao
/// et al. 2024). With normalize_by_std = false, A = R - mean (Dr. GRPO, Liu et al. 2025). The defaults are verl's.
///
/// A group whose rewards are all equal gets exactly 0, decided by comparing the rewards and not by a rounded deviation.
/// A NaN reward marks an unscored row: it is left out of the statistics and gets 0. Statistics are two-pass and in
/// double. Throws std::invalid_argument if sizes do not fit or a reward is infinite.
struct group_relative {
  bool normalize_by_std = true;
  double epsilon = 1e-6;
  singleton_group singleton = singleton_group::reward;

  /// Groups are `group_size` consecutive rows.
  template <class Rewards, class Advantages>
  void operator()(const Rewards& rewards, std::int64_t group_size, Advantages&& advantages) const {
    const auto reward = as_view(rewards);
    const auto out = as_view(advantages);
    check(reward, out);
    const extent_t rows = reward.shape[0];
    if (group_size < 1 || rows % group_size != 0)
      throw std::invalid_argument("rlcore: " + std::to_string(rows) + " rewards do not divide into groups of " +
                                  std::to_string(group_size));
    for (extent_t first = 0; first < rows; first += group_size)
      one_group(reward, out, static_cast<std::size_t>(group_size),
                [first](std::size_t k) { return first + static_cast<extent_t>(k); });
  }

  /// groups[i] is any integer that names the prompt of row i; rows of a group may be anywhere.
  template <class Rewards, class Groups, class Advantages>
  requires(!std::is_convertible_v<const Groups&, std::int64_t>) void operator()(const Rewards& rewards,
                                                                                const Groups& groups,
                                                                                Advantages&& advantages) const {
    const auto reward = as_view(rewards);
    const auto group = as_view(groups);
    const auto out = as_view(advantages);
    check(reward, out);
    if (group.shape[0] != reward.shape[0])
      throw std::invalid_argument("rlcore: groups are " + to_string<1>(group.shape) + ", rewards are " +
                                  to_string<1>(reward.shape));
    std::vector<extent_t> order(static_cast<std::size_t>(reward.shape[0]));
    std::iota(order.begin(), order.end(), extent_t{0});
    std::stable_sort(order.begin(), order.end(), [&](extent_t a, extent_t b) { return group(a) < group(b); });
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      while (last < order.size() && group(order[last]) == group(order[first])) ++last;
      one_group(reward, out, last - first, [&order, first](std::size_t k) { return order[first + k]; });
      first = last;
    }
  }

 private:
  template <class Reward, class Out>
  static void check(const Reward& reward, const Out& out) {
    static_assert(Reward::rank == 1 && Out::rank == 1,
                  "rlcore: rewards and advantages are vectors with one value per row");
    if (reward.shape != out.shape)
      throw std::invalid_argument("rlcore: rewards are " + to_string<1>(reward.shape) + ", advantages are " +
                                  to_string<1>(out.shape));
    for (extent_t i = 0; i < reward.shape[0]; ++i)
      if (std::isinf(static_cast<double>(reward(i))))
        throw std::invalid_argument("rlcore: reward " + std::to_string(i) + " is infinite");
  }

  template <class Reward, class Out, class Row>
  void one_group(const Reward& reward, const Out& out, std::size_t size, Row row) const {
    using result = typename Out::value_type;
    std::size_t scored = 0;
    double sum = 0, low = 0, high = 0;
    for (std::size_t k = 0; k < size; ++k) {
      const double r = static_cast<double>(reward(row(k)));
      if (std::isnan(r)) continue;
      low = scored == 0 ? r : std::min(low, r);
      high = scored == 0 ? r : std::max(high, r);
      sum += r;
      ++scored;
    }
    double mean = 0, deviation = 1;
    const bool flat = scored > 1 ? low == high : singleton == singleton_group::zero;
    if (scored > 1 && !flat) {
      mean = sum / static_cast<double>(scored);
      double squares = 0;
      for (std::size_t k = 0; k < size; ++k) {
        const double d = static_cast<double>(reward(row(k))) - mean;
        if (!std::isnan(d)) squares += d * d;
      }
      deviation = std::sqrt(squares / static_cast<double>(scored - 1));
    }
    const double scale = normalize_by_std ? deviation + epsilon : 1.0;
    for (std::size_t k = 0; k < size; ++k) {
      const double r = static_cast<double>(reward(row(k)));
      out(row(k)) = std::isnan(r) || flat ? result(0) : static_cast<result>((r - mean) / scale);
    }
  }
};

RLCORE_END
