// Shared by outcome-reward estimators: groups of answers and their rewards.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// All rows, group by group: group g is order[begin[g]] ... order[begin[g + 1] - 1], in the order in which its rows
/// were given.
struct grouped_rows {
  scratch_vector<extent_t> order;
  scratch_vector<std::size_t> begin{0};

  std::size_t groups() const noexcept { return begin.size() - 1; }
  std::span<const extent_t> group(std::size_t g) const noexcept {
    return {order.data() + begin[g], begin[g + 1] - begin[g]};
  }
};

inline grouped_rows group_consecutive(extent_t rows, std::int64_t group_size) {
  if (group_size < 1 || rows % group_size != 0)
    throw std::invalid_argument("rlcore: " + std::to_string(rows) + " rewards do not divide into groups of " +
                                std::to_string(group_size));
  grouped_rows result;
  result.order = counted<extent_t>(static_cast<std::size_t>(rows));
  for (extent_t row = group_size; row <= rows; row += group_size) result.begin.push_back(static_cast<std::size_t>(row));
  return result;
}

inline grouped_rows group_by_name(const scratch_vector<std::int64_t>& name) {
  grouped_rows result;
  result.order = counted<extent_t>(name.size());
  const auto name_of = [&](extent_t row) { return name[static_cast<std::size_t>(row)]; };
  sort_stably(result.order, [&](extent_t a, extent_t b) { return name_of(a) < name_of(b); });
  for (std::size_t k = 1; k <= result.order.size(); ++k)
    if (k == result.order.size() || name_of(result.order[k]) != name_of(result.order[k - 1])) result.begin.push_back(k);
  return result;
}

/// `groups` is either the number of consecutive rows in every group, or a vector: groups[i] is any integer that names
/// the prompt of row i. Throws std::invalid_argument if it does not fit the number of rows.
template <class Groups>
grouped_rows group_rows(extent_t rows, const Groups& groups) {
  if constexpr (std::is_convertible_v<const Groups&, std::int64_t>) {
    static_assert(!std::is_floating_point_v<Groups>, "rlcore: the size of a group is an integer; write 8, not 8.0");
    return group_consecutive(rows, static_cast<std::int64_t>(groups));
  } else {
    const auto group = tensor_views::vector_of(as_view(groups));
    using view_type = std::remove_cv_t<decltype(group)>;
    static_assert(view_type::rank == 1 && std::is_integral_v<typename view_type::value_type>,
                  "rlcore: groups is the size of a group, or a vector of integers with the prompt of each row");
    if (group.shape[0] != rows)
      throw std::invalid_argument("rlcore: groups are " + to_string<1>(group.shape) + ", rewards are " +
                                  to_string<1>({rows}));
    scratch_vector<std::int64_t> name(static_cast<std::size_t>(rows));
    for (extent_t i = 0; i < rows; ++i) name[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(group(i));
    return group_by_name(name);
  }
}

/// One number per row in double. Throws std::invalid_argument if one is infinite; NaN passes.
template <class Numbers>
scratch_vector<double> read_numbers(const char* name, const Numbers& numbers) {
  const auto v = tensor_views::vector_of(as_view(numbers));
  static_assert(std::remove_cv_t<decltype(v)>::rank == 1,
                "rlcore: this estimator takes a vector with one value per row; sum the rewards of tokens with "
                "row_totals, or use an estimator of [rows, tokens] such as gae");
  scratch_vector<double> result(static_cast<std::size_t>(v.shape[0]));
  for (extent_t i = 0; i < v.shape[0]; ++i) {
    const double x = static_cast<double>(v(i));
    if (std::isinf(x))
      throw std::invalid_argument("rlcore: " + std::string(name) + " " + std::to_string(i) + " is infinite");
    result[static_cast<std::size_t>(i)] = x;
  }
  return result;
}

/// How many tokens each row has. Throws std::invalid_argument unless they are whole numbers, at least 0.
template <class Lengths>
scratch_vector<double> read_lengths(const Lengths& lengths, std::size_t rows) {
  scratch_vector<double> length = read_numbers("length", lengths);
  if (length.size() != rows)
    throw std::invalid_argument("rlcore: lengths are [" + std::to_string(length.size()) + "], rewards are [" +
                                std::to_string(rows) + "]");
  for (std::size_t i = 0; i < rows; ++i)
    if (!(length[i] >= 0) || length[i] != std::floor(length[i]))
      throw std::invalid_argument("rlcore: length " + std::to_string(i) + " is " + std::to_string(length[i]) +
                                  ", expected a number of tokens");
  return length;
}

template <class Numbers>
void write_numbers(const char* name, const scratch_vector<double>& from, Numbers& numbers) {
  const auto v = tensor_views::vector_of(as_view(numbers));
  using view_type = std::remove_cv_t<decltype(v)>;
  static_assert(view_type::rank == 1, "rlcore: rewards and advantages are vectors with one value per row");
  if (v.shape[0] != static_cast<extent_t>(from.size()))
    throw std::invalid_argument("rlcore: rewards are " + to_string<1>({static_cast<extent_t>(from.size())}) + ", " +
                                name + " are " + to_string<1>(v.shape));
  for (extent_t i = 0; i < v.shape[0]; ++i)
    v(i) = static_cast<typename view_type::value_type>(from[static_cast<std::size_t>(i)]);
}

/// Mean and deviation (n - 1) of a group, two-pass. Equal rewards are found by comparing them, so a flat group has
/// exactly their common value as mean, and deviation 0.
struct group_summary {
  double mean = 0, deviation = 0;
  bool flat = true;

  explicit group_summary(std::span<const double> reward) {
    if (reward.empty()) return;
    double low = reward[0], high = reward[0], sum = 0;
    for (const double r : reward) low = least(low, r), high = greatest(high, r), sum += r;
    flat = low == high;
    mean = flat ? low : sum / static_cast<double>(reward.size());
    if (flat) return;
    double squares = 0;
    for (const double r : reward) squares += (r - mean) * (r - mean);
    deviation = std::sqrt(squares / static_cast<double>(reward.size() - 1));
  }
};

/// Calls one_group(reward, row, advantage) for every group with a scored row: the rewards of its scored rows, the rows
/// that they belong to, and where the advantages go. Returns the advantages of all rows; unscored rows get 0.
template <class F>
scratch_vector<double> each_scored_group(const scratch_vector<double>& reward, const grouped_rows& groups,
                                         F one_group) {
  scratch_vector<double> advantage(reward.size(), 0.0), group_reward, group_advantage;
  scratch_vector<std::size_t> row;
  for (std::size_t g = 0; g < groups.groups(); ++g) {
    group_reward.clear(), row.clear();
    for (const extent_t i : groups.group(g)) {
      const auto at = static_cast<std::size_t>(i);
      if (std::isnan(reward[at])) continue;
      row.push_back(at), group_reward.push_back(reward[at]);
    }
    if (row.empty()) continue;
    group_advantage.assign(row.size(), 0.0);
    one_group(std::span<const double>(group_reward.data(), row.size()),
              std::span<const std::size_t>(row.data(), row.size()), span_of(group_advantage));
    for (std::size_t k = 0; k < row.size(); ++k) advantage[row[k]] = group_advantage[k];
  }
  return advantage;
}

/// The complete estimator for advantages that need only the rewards of one group.
template <class Rewards, class Groups, class Advantages, class F>
void outcome_advantages(const Rewards& rewards, const Groups& groups, Advantages& advantages, F one_group) {
  const scratch_vector<double> reward = read_numbers("reward", rewards);
  const auto rows = static_cast<extent_t>(reward.size());
  write_numbers("advantages", each_scored_group(reward, group_rows(rows, groups), one_group), advantages);
}

}  // namespace detail

RLCORE_ALGORITHM_END
RLCORE_END
