// Which rows a step trains on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/objective/filter/group_rules.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What a filter keeps, and why the rest went.
struct kept_groups {
  std::vector<std::int64_t> rows;  ///< ascending
  std::int64_t groups = 0;         ///< that were looked at
  std::int64_t kept = 0;           ///< of them
  std::int64_t equal = 0;          ///< whose scored rewards, two or more, are all equal: no signal for a group baseline
  std::int64_t single = 0;         ///< with one scored reward
  std::int64_t unscored = 0;       ///< with none
  std::int64_t unscored_rows = 0;
};

/// Dynamic sampling: keeps the groups for which `rule` holds (rewards_differ, mean_between, any_positive, or your own).
/// A NaN reward marks an unscored row; rules do not see it and it is never kept, but the other rows of its group may
/// be. Throws std::invalid_argument if sizes do not fit.
template <class Rule = rewards_differ>
struct keep_groups {
  [[no_unique_address]] Rule rule{};

  constexpr keep_groups() = default;
  /// Keeps the groups for which `r` holds.
  constexpr explicit keep_groups(Rule r) : rule(r) {}

  /// Groups are `group_size` consecutive rows.
  template <class Rewards>
  kept_groups operator()(const Rewards& rewards, std::int64_t group_size) const {
    const auto reward = tensor_views::vector_of(as_view(rewards));
    if (group_size < 1 || reward.shape[0] % group_size != 0)
      throw std::invalid_argument("rlcore: " + std::to_string(reward.shape[0]) +
                                  " rewards do not divide into groups of " + std::to_string(group_size));
    std::vector<extent_t> order(static_cast<std::size_t>(reward.shape[0]));
    std::iota(order.begin(), order.end(), extent_t{0});
    return filter(reward, order, [group_size](extent_t row) { return row / group_size; });
  }

  /// groups[i] is any integer that names the prompt of row i; rows of a group may be anywhere.
  template <class Rewards, class Groups>
  requires(!std::is_convertible_v<const Groups&, std::int64_t>) kept_groups operator()(const Rewards& rewards,
                                                                                       const Groups& groups) const {
    const auto reward = tensor_views::vector_of(as_view(rewards));
    const auto group = tensor_views::vector_of(as_view(groups));
    if (group.shape[0] != reward.shape[0])
      throw std::invalid_argument("rlcore: groups are " + to_string<1>(group.shape) + ", rewards are " +
                                  to_string<1>(reward.shape));
    std::vector<extent_t> order(static_cast<std::size_t>(reward.shape[0]));
    std::iota(order.begin(), order.end(), extent_t{0});
    std::stable_sort(order.begin(), order.end(), [&](extent_t a, extent_t b) { return group(a) < group(b); });
    kept_groups result = filter(reward, order, [&group](extent_t row) { return group(row); });
    std::sort(result.rows.begin(), result.rows.end());
    return result;
  }

 private:
  template <class Reward, class Group>
  kept_groups filter(const Reward& reward, const std::vector<extent_t>& order, Group group) const {
    static_assert(Reward::rank == 1, "rlcore: rewards are a vector with one value per row");
    using element = typename Reward::value_type;
    kept_groups result;
    std::vector<element> scored;
    std::vector<std::int64_t> rows;
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      scored.clear(), rows.clear();
      for (; last < order.size() && group(order[last]) == group(order[first]); ++last) {
        const element r = reward(order[last]);
        if (r == r) scored.push_back(r), rows.push_back(order[last]);
      }
      const std::span<const element> seen(scored);
      ++result.groups;
      result.unscored_rows += static_cast<std::int64_t>(last - first - scored.size());
      result.unscored += scored.empty();
      result.single += scored.size() == 1;
      result.equal += scored.size() > 1 && !rewards_differ{}(seen);
      if (!scored.empty() && rule(seen)) {
        ++result.kept;
        result.rows.insert(result.rows.end(), rows.begin(), rows.end());
      }
      first = last;
    }
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
