// The value of a prompt under the best policy near the reference.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/advantage/detail/outcome.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// V* = temperature log mean_i exp(R_i / temperature) over samples of the reference policy: the value of the prompt
/// under the policy that is optimal for a KL penalty of `temperature` (A*PO, Brantley et al. 2025; TRL's A2PO, beta1).
/// Its loss regresses R - V* on the log-ratio.
///
/// Written for every scored row of the group; equal rewards give exactly that reward. A NaN reward (unscored row) is
/// left out and gets 0. A2PO drops prompts without any reward before: keep_groups{any_positive{}}. Throws
/// std::invalid_argument unless temperature > 0.
struct optimal_value {
  double temperature = 0.5;

  /// Writes V* to `values`, one per row. `groups`: the number of consecutive rows in each group, or a vector with any
  /// integer that names the prompt of each row.
  template <class Rewards, class Groups, class Values>
  void operator()(const Rewards& rewards, const Groups& groups, Values&& values) const {
    detail::outcome_advantages(
        rewards, groups, values,
        [this](std::span<const double> reward, std::span<const std::size_t>, std::span<double> value) {
          for (double& v : value) v = of(reward);
        });
  }

  /// Of one group of scored rewards.
  double of(std::span<const double> reward) const {
    if (!(temperature > 0))
      throw std::invalid_argument("rlcore: optimal_value needs temperature > 0, it is " + std::to_string(temperature));
    double high = reward[0], sum = 0;
    for (const double r : reward) high = r > high ? r : high;
    for (const double r : reward) sum += elementary::exp((r - high) / temperature);
    return high + temperature * elementary::log(sum / static_cast<double>(reward.size()));
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
