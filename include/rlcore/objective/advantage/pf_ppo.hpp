// PF-PPO: resampling of the batch by reward.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Which rows PF-PPO prefers.
enum class pf_ppo_weight : std::uint8_t {
  power,       ///< |R|^exponent: both ends, if rewards are centred at 0
  max_min,     ///< only the rows with the highest and the lowest reward
  max_random,  ///< 0.4 for the rows with the highest reward, 0.1 for all others
};

/// Draws as many rows as the batch has, with replacement and with probabilities proportional to their weight + 1e-8:
/// policy filtration of PPO (Zhang and Huang 2024; verl's use_pf_ppo, after the advantages are computed).
///
/// Draw k is a function of the key and k alone. A NaN reward (unscored row) has weight 0 and is never drawn. Throws
/// std::invalid_argument if the batch has rows, but none of them is scored.
struct pf_ppo {
  pf_ppo_weight kind = pf_ppo_weight::power;
  double exponent = 2.0;

  /// The weight of every row by `kind`, plus 1e-8; 0 for an unscored row. Throws std::invalid_argument if a reward is
  /// infinite.
  template <class Rewards>
  std::vector<double> weights(const Rewards& rewards) const {
    const auto reward = detail::read_numbers("reward", rewards);
    double low = INFINITY, high = -INFINITY;
    for (const double r : reward)
      if (!std::isnan(r)) low = std::min(low, r), high = std::max(high, r);
    std::vector<double> weight(reward.size(), 0.0);
    for (std::size_t i = 0; i < reward.size(); ++i)
      if (!std::isnan(reward[i])) weight[i] = one_weight(reward[i], low, high) + 1e-8;
    return weight;
  }

  /// The rows of the new batch, in the order of the draws.
  template <class Rewards>
  std::vector<std::int64_t> operator()(const Rewards& rewards, random_key key) const {
    std::vector<double> up_to = weights(rewards);
    double total = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < up_to.size(); ++i) {
      if (up_to[i] > 0) last = i;
      up_to[i] = total += up_to[i];
    }
    if (!up_to.empty() && !(total > 0))
      throw std::invalid_argument("rlcore: none of the " + std::to_string(up_to.size()) + " rows has a reward");
    std::vector<std::int64_t> row(up_to.size());
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double u = key.uniform(static_cast<std::uint32_t>(k)) * total;
      const auto at = static_cast<std::size_t>(std::upper_bound(up_to.begin(), up_to.end(), u) - up_to.begin());
      row[k] = static_cast<std::int64_t>(std::min(at, last));
    }
    return row;
  }

 private:
  double one_weight(double reward, double low, double high) const noexcept {
    switch (kind) {
      case pf_ppo_weight::power:
        return elementary::pow(std::abs(reward), exponent);
      case pf_ppo_weight::max_min:
        return reward == low || reward == high ? 1.0 : 0.0;
      case pf_ppo_weight::max_random:
        break;
    }
    return reward == high ? 0.4 : 0.1;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
