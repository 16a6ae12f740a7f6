// Which groups are worth seeing again.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (sum over a group of |A|) * std(rewards), std with n - 1: the key by which TRL's GRPO with a replay buffer keeps and
/// draws groups. Exactly 0 for a group of one or of equal rewards, NaN if a reward is. Throws std::invalid_argument if
/// sizes differ.
template <class T>
double replay_priority(std::span<const T> advantages, std::span<const T> rewards) {
  if (advantages.size() != rewards.size())
    throw std::invalid_argument("rlcore: advantages are [" + std::to_string(advantages.size()) + "], rewards are [" +
                                std::to_string(rewards.size()) + "]");
  bool equal = true;
  double sum = 0, mean = 0, squares = 0;
  for (const T r : rewards) equal = equal && r == rewards[0], mean += static_cast<double>(r);
  if (equal) return 0;
  const auto n = static_cast<double>(rewards.size());
  mean /= n;
  for (const T r : rewards) squares += (static_cast<double>(r) - mean) * (static_cast<double>(r) - mean);
  for (const T a : advantages) sum += std::abs(static_cast<double>(a));
  return sum * std::sqrt(squares / (n - 1));
}

RLCORE_ALGORITHM_END
RLCORE_END
