// Rows that must not take part in statistics of rewards.
#pragma once

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

RLCORE_ALGORITHM_END
RLCORE_END
