// Less weight for what only the longer answer of a pair has.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// weights[i, t] = 1 up to the length of the shorter answer of the pair (rows 2k and 2k + 1), alpha beyond it, 0 where
/// the mask is 0: LD-DPO (Liu et al. 2024; TRL ld_alpha). Use with sum_of<weighted_log_ratio_to_reference>. Lengths
/// count live tokens. alpha 1 is DPO, 0 ignores the tail. Throws std::invalid_argument if alpha is outside [0, 1],
/// shapes differ or rows are odd.
template <class Mask, class Weights>
void ld_dpo_weights(const Mask& mask_, double alpha, Weights&& weights_) {
  const auto mask = as_view<2>(mask_);
  const auto weights = as_view<2>(weights_);
  if (!(alpha >= 0 && alpha <= 1))
    throw std::invalid_argument("rlcore: alpha of LD-DPO is between 0 and 1, not " + std::to_string(alpha));
  if (mask.shape != weights.shape || mask.shape[0] % 2 != 0)
    throw std::invalid_argument("rlcore: LD-DPO needs pairs of rows and weights of the mask's shape; mask is " +
                                to_string<2>(mask.shape) + ", weights " + to_string<2>(weights.shape));
  const auto live = [&](extent_t i) {
    extent_t n = 0;
    for (extent_t t = 0; t < mask.shape[1]; ++t) n += mask(i, t) != 0;
    return n;
  };
  using number = typename decltype(weights)::value_type;
  for (extent_t pair = 0; pair < mask.shape[0]; pair += 2) {
    const extent_t first = live(pair), second = live(pair + 1);
    const extent_t shared = first < second ? first : second;
    for (extent_t i = pair; i < pair + 2; ++i)
      for (extent_t t = 0, seen = 0; t < mask.shape[1]; ++t) {
        const bool counts = mask(i, t) != 0;
        seen += counts;
        weights(i, t) = static_cast<number>(!counts ? 0.0 : seen <= shared ? 1.0 : alpha);
      }
  }
}

RLCORE_ALGORITHM_END
RLCORE_END
