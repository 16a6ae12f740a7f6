// Rows without a score out of the loss.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Sets the mask of all tokens of a row to 0 where its score is NaN (mark_unscored). Estimators with one reward per row
/// leave such rows out by themselves; those per token (gae, reinforce_plus_plus, remax) know nothing but the mask and
/// would train the row on a reward of 0 and count it in every mean, so give them, and token_batch::mask, the mask that
/// this made. `mask` is [rows, tokens] of any arithmetic type, or a vector with the number of live tokens of each row,
/// for batches with lengths. Returns how many rows were masked; throws std::invalid_argument for other shapes.
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

RLCORE_ALGORITHM_END
RLCORE_END
