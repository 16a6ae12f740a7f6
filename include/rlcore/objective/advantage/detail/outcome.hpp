// What all estimators with one reward per row share: unscored rows, groups, the mean and deviation of a group.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/advantage/detail/groups.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

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

/// The whole estimator for those that need nothing but the rewards of one group.
template <class Rewards, class Groups, class Advantages, class F>
void outcome_advantages(const Rewards& rewards, const Groups& groups, Advantages& advantages, F one_group) {
  const scratch_vector<double> reward = read_numbers("reward", rewards);
  const auto rows = static_cast<extent_t>(reward.size());
  write_numbers("advantages", each_scored_group(reward, group_rows(rows, groups), one_group), advantages);
}

}  // namespace detail

RLCORE_ALGORITHM_END
RLCORE_END
