// Advantages of the turns of conversations, against other turns in the same state: GiGPO.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"
#include "rlcore/objective/advantage/estimator.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Turns of conversations, row after row. Row i has turns[i] of them, at least one, and turn k begins in a state that
/// states[k] names, any integer: what the environment has shown last. States are compared within a group.
struct conversation_turns {
  std::span<const std::int64_t> turns;  ///< [rows]
  std::span<const float> rewards;       ///< of each turn
  std::span<const std::int64_t> states;
};

/// A_k = A^E + step_weight A^S_k for each turn k of a conversation (GiGPO, Feng et al. 2025, arXiv 2505.10978,
/// equations 3 to 8). A^E compares the reward of the whole conversation with those of its group, as GRPO does. A^S_k
/// compares the discounted return of the turn, R_k = r_k + gamma R_k+1, with those of all turns of the group that begin
/// in the same state, its own conversation's included; it is 0 where there is no other. Both are x - mean, or with
/// normalize_by_std (x - mean) / (deviation + epsilon), the deviation with n - 1.
///
/// verl-agent's compute_gigpo_outcome_advantage takes the mean of A^E over turns, so that longer conversations count
/// more in it; here, as in the paper, each conversation counts once.
struct gigpo {
  static constexpr bool by_turn = true;  ///< how the policy loop calls it
  double step_weight = 1;
  double gamma = 1;
  bool normalize_by_std = false;
  double epsilon = 1e-6;

  constexpr void check_settings() const {
    check_setting("gigpo", "step_weight", step_weight, setting::coefficient);
    check_setting("gigpo", "gamma", gamma, setting::fraction);
    check_setting("gigpo", "epsilon", epsilon, setting::coefficient);
  }

  /// Writes one advantage for each turn. `rewards` [rows] are those of whole conversations, `groups` the number of
  /// consecutive rows in each group, or a vector with any integer that names the prompt of each row. Throws
  /// std::invalid_argument if sizes do not fit or a reward is infinite.
  template <class Rewards, class Groups>
  void operator()(const Rewards& rewards, const Groups& groups, const conversation_turns& in,
                  std::span<float> advantages) const {
    const auto rows = static_cast<extent_t>(in.turns.size());
    std::size_t count = 0;
    for (const std::int64_t n : in.turns) {
      if (n < 1) throw std::invalid_argument("rlcore: gigpo: a conversation has " + std::to_string(n) + " turns");
      count += static_cast<std::size_t>(n);
    }
    if (in.rewards.size() != count || in.states.size() != count || advantages.size() != count)
      throw std::invalid_argument("rlcore: gigpo: " + std::to_string(count) + " turns have " +
                                  std::to_string(in.rewards.size()) + " rewards, " + std::to_string(in.states.size()) +
                                  " states and " + std::to_string(advantages.size()) + " advantages");
    const group_relative against{normalize_by_std, epsilon, singleton_group::zero};
    std::vector<double> episode(in.turns.size()), returns(count), step(count);
    against(rewards, groups, episode);
    std::vector<std::int64_t> group_of(in.turns.size());
    const detail::grouped_rows grouped = detail::group_rows(rows, groups);
    for (std::size_t g = 0; g < grouped.groups(); ++g)
      for (const extent_t row : grouped.group(g))
        group_of[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(g);
    std::vector<std::int64_t> row_of(count);
    for (std::size_t row = 0, first = 0; row < in.turns.size(); ++row) {
      const std::size_t end = first + static_cast<std::size_t>(in.turns[row]);
      double to_go = 0;
      for (std::size_t k = end; k-- > first;) {
        returns[k] = to_go = static_cast<double>(in.rewards[k]) + gamma * to_go;
        row_of[k] = static_cast<std::int64_t>(row);
      }
      first = end;
    }
    against(returns, names_of(in.states, row_of, group_of), step);
    for (std::size_t k = 0; k < count; ++k)
      advantages[k] = static_cast<float>(episode[static_cast<std::size_t>(row_of[k])] + step_weight * step[k]);
  }

 private:
  /// A number for each pair of a group and a state.
  static std::vector<std::int64_t> names_of(std::span<const std::int64_t> states, std::span<const std::int64_t> row_of,
                                            std::span<const std::int64_t> group_of) {
    const auto pair_of = [&](extent_t k) {
      const auto at = static_cast<std::size_t>(k);
      return std::pair(group_of[static_cast<std::size_t>(row_of[at])], states[at]);
    };
    scratch_vector<extent_t> order = detail::counted<extent_t>(states.size());
    detail::sort_stably(order, [&](extent_t a, extent_t b) { return pair_of(a) < pair_of(b); });
    std::vector<std::int64_t> names(states.size());
    std::int64_t name = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && pair_of(order[i]) != pair_of(order[i - 1])) ++name;
      names[static_cast<std::size_t>(order[i])] = name;
    }
    return names;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
