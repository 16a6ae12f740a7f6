// Rows left out of the loss: truncated (overlong filtering) or unscored.
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
