// Dynamic sampling: which groups of answers to keep, and the rules for it; rows left out of the loss.
//
// A rule is a callable `bool operator()(std::span<const T> rewards) const` over the scored rewards of one group.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN

RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Sum in the order of numpy.add.reduce: sequential below 8, eight running sums up to 128, halves beyond.
template <class T>
T numpy_sum(std::span<const T> x) noexcept {
  const std::size_t n = x.size();
  if (n < 8) {
    T sum = T(0);
    for (const T v : x) sum += v;
    return sum;
  }
  if (n <= 128) {
    std::array<T, 8> r;
    for (std::size_t k = 0; k < 8; ++k) r[k] = x[k];
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8)
      for (std::size_t k = 0; k < 8; ++k) r[k] += x[i + k];
    T sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; ++i) sum += x[i];
    return sum;
  }
  const std::size_t half = n / 2 - n / 2 % 8;
  return numpy_sum(x.first(half)) + numpy_sum(x.subspan(half));
}

/// numpy.std(x), which divides by n; NaN for no elements.
template <class T>
T numpy_deviation(std::span<const T> x) noexcept {
  const T n = static_cast<T>(x.size());
  const T mean = numpy_sum(x) / n;
  scratch_vector<T> squares;
  squares.reserve(x.size());
  for (const T v : x) squares.push_back((v - mean) * (v - mean));
  return std::sqrt(numpy_sum(std::span<const T>(squares)) / n);
}

}  // namespace detail

/// Keeps a group whose rewards differ: largest != smallest, decided on the rewards as they are (DAPO's dynamic
/// sampling, Yu et al. 2025). A group of one is kept only if `keep_single`.
struct rewards_differ {
  bool keep_single = false;
  /// Whether to keep a group with these scored rewards.
  template <class T>
  constexpr bool operator()(std::span<const T> rewards) const noexcept {
    if (rewards.size() < 2) return keep_single && rewards.size() == 1;
    const auto [low, high] = std::minmax_element(rewards.begin(), rewards.end());
    return *low != *high;
  }
};

/// Keeps a group with low < mean < high (OpenRLHF's dynamic_filtering_range). It ignores the variance: a group whose
/// rewards are all 0.5 is kept, and with low = 0 a group of negative rewards is not.
struct mean_between {
  double low = 0.0, high = 1.0;
  /// Whether to keep a group with these scored rewards.
  template <class T>
  constexpr bool operator()(std::span<const T> rewards) const noexcept {
    if (rewards.empty()) return false;
    double sum = 0;
    for (const T r : rewards) sum += static_cast<double>(r);
    const double mean = sum / static_cast<double>(rewards.size());
    return low < mean && mean < high;
  }
};

/// Keeps a group with a reward above 0 (A2PO, Brantley et al. 2025; TRL's filter_all_incorrect, which asks for a sum
/// that is not 0): prompts that no sample of the reference policy solved. A group that all samples solved is kept,
/// because a regression on R - V* learns from it.
struct any_positive {
  /// Whether to keep a group with these scored rewards.
  template <class T>
  constexpr bool operator()(std::span<const T> rewards) const noexcept {
    return std::any_of(rewards.begin(), rewards.end(), [](T r) { return r > T(0); });
  }
};

/// Keeps a group of one, and one whose standard deviation as NumPy rounds it is above 0: verl's filter_groups. Rounding
/// makes it keep some groups of equal rewards, e.g. three of 0.1; rewards_differ does not.
struct numpy_deviation_above_zero {
  /// Whether to keep a group with these scored rewards.
  template <class T>
  bool operator()(std::span<const T> rewards) const noexcept {
    return rewards.size() == 1 || detail::numpy_deviation(rewards) > T(0);
  }
};

/// Result of a filter: the rows it keeps, and why it dropped the rest.
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
/// A NaN reward marks an unscored row; rules do not see it and it is never kept, but the scored rows of its group may
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
    requires(!std::is_convertible_v<const Groups&, std::int64_t>)
  kept_groups operator()(const Rewards& rewards, const Groups& groups) const {
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

/// Sets rewards[i] to NaN where valid[i] is 0: rows that were aborted, rejected, or that no reward function could
/// score. The advantages and filters leave NaN rows out of every mean and deviation and give them advantage 0;
/// estimators per token need mask_unscored as well. Returns how many rows were marked; throws
/// std::invalid_argument if sizes differ.
template <class Valid, class Rewards>
std::int64_t mark_unscored(const Valid& valid, Rewards&& rewards) {
  const auto flag = tensor_views::vector_of(as_view(valid));
  const auto reward = tensor_views::vector_of(as_view(rewards));
  using element = typename decltype(reward)::value_type;
  static_assert(decltype(flag)::rank == 1 && decltype(reward)::rank == 1 && std::is_floating_point_v<element>,
                "rlcore: valid and rewards are vectors with one value per row, rewards of float or double");
  if (flag.shape != reward.shape)
    throw std::invalid_argument("rlcore: valid is " + to_string<1>(flag.shape) + ", rewards are " +
                                to_string<1>(reward.shape));
  std::int64_t marked = 0;
  for (extent_t i = 0; i < flag.shape[0]; ++i)
    if (!flag(i)) reward(i) = std::numeric_limits<element>::quiet_NaN(), ++marked;
  return marked;
}

/// Sets the mask of all tokens of a row to 0 where its score is NaN (mark_unscored). Estimators with one reward per row
/// leave such rows out by themselves; those per token (gae, reinforce_plus_plus, remax) see only the mask and would
/// train the row on a reward of 0 and count it in every mean, so give them, and token_batch::mask, the mask that this
/// made. `mask` is [rows, tokens] of any arithmetic type, or a vector with the number of live tokens of each row, for
/// batches with lengths. Returns how many rows were masked; throws std::invalid_argument for other shapes.
template <class Scores, class Mask>
std::int64_t mask_unscored(const Scores& scores, Mask&& mask) {
  const auto score = tensor_views::vector_of(as_view(scores));
  const auto live = as_view(mask);
  using view_type = std::remove_cv_t<decltype(live)>;
  using element = typename view_type::value_type;
  static_assert(
      std::remove_cv_t<decltype(score)>::rank == 1 && (view_type::rank == 1 || view_type::rank == 2) &&
          !std::is_const_v<element>,
      "rlcore: scores are a vector with one value per row, the mask is [rows, tokens] or the lengths of rows, "
      "and is written");
  if (live.shape[0] != score.shape[0])
    throw std::invalid_argument("rlcore: scores are " + to_string<1>(score.shape) + ", the mask is " +
                                to_string<view_type::rank>(live.shape));
  std::int64_t masked = 0;
  for (extent_t i = 0; i < score.shape[0]; ++i) {
    if (score(i) == score(i)) continue;
    ++masked;
    if constexpr (view_type::rank == 1)
      live(i) = element(0);
    else
      for (extent_t t = 0; t < live.shape[1]; ++t) live(i, t) = element(0);
  }
  return masked;
}

/// Sets the number of live tokens to 0 where truncated[i] is not 0 (DAPO's overlong filtering; TRL's
/// mask_truncated_completions). Such a row has no gradient and is in no denominator that counts tokens or sequences;
/// its reward still counts in its group's baseline, so compute advantages from all rows. Pass the result as
/// token_batch::lengths. Returns how many rows were masked; throws std::invalid_argument if sizes differ.
template <class Truncated, class Lengths>
std::int64_t mask_truncated(const Truncated& truncated, Lengths&& lengths) {
  const auto flag = tensor_views::vector_of(as_view(truncated));
  const auto length = tensor_views::vector_of(as_view(lengths));
  using element = typename decltype(length)::value_type;
  static_assert(decltype(flag)::rank == 1 && decltype(length)::rank == 1 && std::is_integral_v<element>,
                "rlcore: truncated and lengths are vectors with one value per row, lengths of integers");
  if (flag.shape != length.shape)
    throw std::invalid_argument("rlcore: truncated is " + to_string<1>(flag.shape) + ", lengths are " +
                                to_string<1>(length.shape));
  std::int64_t masked = 0;
  for (extent_t i = 0; i < flag.shape[0]; ++i)
    if (flag(i)) length(i) = element(0), ++masked;
  return masked;
}

RLCORE_ALGORITHM_END

RLCORE_END
