// When the rewards of a group are worth training on.
//
// A rule is a callable `bool operator()(std::span<const T> rewards) const` over the scored rewards of one group.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/objective/filter/detail/numpy_deviation.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

/// Keeps a group with low < mean < high (OpenRLHF's dynamic_filtering_range). It asks nothing about variance: rewards
/// that are all 0.5 are kept, and with low = 0 so is nothing of a group whose rewards are all negative.
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

RLCORE_ALGORITHM_END
RLCORE_END
