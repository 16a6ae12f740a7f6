// A reward for being shorter than the other answers to the same prompt.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// Kimi k1.5's length reward (Kimi Team 2025, section 2.3.3): with lambda = 1/2 - (length - shortest) / (longest -
/// shortest) over the answers to one prompt, a right answer gets lambda, a wrong one min(0, lambda), and all get 0 if
/// they are equally long. To be added to the rewards, times a weight.
struct length_relative {
  /// One group; right[i] is not 0 for right answers. Throws std::invalid_argument if sizes differ.
  template <class Flag>
  void operator()(std::span<const std::int64_t> length, std::span<const Flag> right, std::span<double> bonus) const {
    if (right.size() != length.size() || bonus.size() != length.size())
      throw std::invalid_argument("rlcore: lengths are [" + std::to_string(length.size()) + "], right is [" +
                                  std::to_string(right.size()) + "], bonus is [" + std::to_string(bonus.size()) + "]");
    if (length.empty()) return;
    const auto [shortest, longest] = std::minmax_element(length.begin(), length.end());
    const auto range = static_cast<double>(*longest - *shortest);
    for (std::size_t i = 0; i < length.size(); ++i) {
      const double lambda = range > 0 ? 0.5 - static_cast<double>(length[i] - *shortest) / range : 0.0;
      bonus[i] = right[i] != Flag(0) ? lambda : std::min(0.0, lambda);
    }
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
