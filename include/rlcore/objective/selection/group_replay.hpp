// Groups of answers that are worth a second look.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The score by which TRL's replay buffer keeps groups and draws them again in proportion: std(R) sum |A| over the
/// `group_size` consecutive rows of a prompt, std with n - 1. A group whose rewards are all equal has exactly 0 and is
/// not stored. scores has one entry per group. Throws std::invalid_argument if sizes do not fit.
template <class Rewards, class Advantages, class Scores>
void group_replay_scores(const Rewards& rewards, const Advantages& advantages, std::int64_t group_size,
                         Scores&& scores) {
  const auto reward = as_view<1>(rewards);
  const auto advantage = as_view<1>(advantages);
  const auto out = as_view<1>(scores);
  using result = typename decltype(out)::value_type;
  const extent_t rows = reward.shape[0], size = static_cast<extent_t>(group_size);
  if (advantage.shape != reward.shape)
    throw std::invalid_argument("rlcore: rewards are " + to_string<1>(reward.shape) + ", advantages are " +
                                to_string<1>(advantage.shape));
  if (size < 1 || rows % size != 0)
    throw std::invalid_argument("rlcore: " + std::to_string(rows) + " rewards do not divide into groups of " +
                                std::to_string(size));
  if (out.shape[0] != rows / size)
    throw std::invalid_argument("rlcore: there are " + std::to_string(rows / size) + " groups, scores are " +
                                to_string<1>(out.shape));
  for (extent_t g = 0; g < rows / size; ++g) {
    double sum = 0, absolute = 0, squares = 0;
    bool flat = true;
    for (extent_t i = g * size; i < (g + 1) * size; ++i) {
      sum += static_cast<double>(reward(i)), absolute += std::abs(static_cast<double>(advantage(i)));
      flat = flat && reward(i) == reward(g * size);
    }
    const double mean = sum / static_cast<double>(size);
    for (extent_t i = g * size; i < (g + 1) * size; ++i) {
      const double d = static_cast<double>(reward(i)) - mean;
      squares += d * d;
    }
    out(g) = flat ? result(0) : static_cast<result>(std::sqrt(squares / static_cast<double>(size - 1)) * absolute);
  }
}

RLCORE_ALGORITHM_END
RLCORE_END
