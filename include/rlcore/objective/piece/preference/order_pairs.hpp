// Pairs that a reward or a judge makes: which of two sampled answers is the chosen one.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>

#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// rows[2k], rows[2k + 1] = the two rows of pair k, the one with the higher score first; equal scores keep their order
/// (online DPO, Guo et al. 2024; TRL's OnlineDPOTrainer, verl's spin). Gather the batch in that order before a pair
/// loss. rows holds integers. Throws std::invalid_argument if rows are odd, sizes differ, or a score is NaN: an
/// unscored answer cannot be chosen.
template <class Scores, class Rows>
void order_pairs(const Scores& scores_, Rows&& rows_) {
  const auto scores = as_view<1>(scores_);
  const auto rows = as_view<1>(rows_);
  if (scores.shape != rows.shape || scores.shape[0] % 2 != 0)
    throw std::invalid_argument("rlcore: pairs need an even number of scores and as many rows; scores are " +
                                to_string<1>(scores.shape) + ", rows " + to_string<1>(rows.shape));
  using index = typename decltype(rows)::value_type;
  for (extent_t i = 0; i < scores.shape[0]; i += 2) {
    for (extent_t k = i; k < i + 2; ++k)
      if (std::isnan(static_cast<double>(scores(k))))
        throw std::invalid_argument("rlcore: score " + std::to_string(k) + " is NaN, so its pair has no chosen answer");
    const extent_t chosen = scores(i) >= scores(i + 1) ? i : i + 1;
    rows(i) = static_cast<index>(chosen);
    rows(i + 1) = static_cast<index>(2 * i + 1 - chosen);
  }
}

RLCORE_ALGORITHM_END
RLCORE_END
