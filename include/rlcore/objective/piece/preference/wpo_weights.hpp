// The weights of WPO: how far a sequence lies on the policy.
#pragma once

#include <stdexcept>
#include <string>

#include "rlcore/core/elementary.hpp"
#include "rlcore/tensor/span.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// weights[i] = exp(mean over live t of (logp[i, t] - log sum_v pi(v | prefix)^2)): the length-normalised probability
/// of a sequence, relative to that of sampling the same token twice (WPO, Zhou et al. 2024, equation 2 with sampled
/// alignment; TRL use_weighting). A constant for the gradient. Matrices are [rows, tokens], mask is non-zero where a
/// token counts; a row without live tokens gets 1. Throws std::invalid_argument if shapes differ.
template <class Logp, class SquareSum, class Mask, class Weights>
void wpo_weights(const Logp& logp_, const SquareSum& log_square_sum_, const Mask& mask_, Weights&& weights_) {
  const auto logp = as_view<2>(logp_);
  const auto square_sum = as_view<2>(log_square_sum_);
  const auto mask = as_view<2>(mask_);
  const auto weights = as_view<1>(weights_);
  if (logp.shape != square_sum.shape || logp.shape != mask.shape || weights.shape[0] != logp.shape[0])
    throw std::invalid_argument("rlcore: logp is " + to_string<2>(logp.shape) + ", log_square_sum " +
                                to_string<2>(square_sum.shape) + ", mask " + to_string<2>(mask.shape) + ", weights " +
                                to_string<1>(weights.shape));
  for (extent_t i = 0; i < logp.shape[0]; ++i) {
    double sum = 0, live = 0;
    for (extent_t t = 0; t < logp.shape[1]; ++t) {
      if (mask(i, t) == 0) continue;
      sum += static_cast<double>(logp(i, t)) - static_cast<double>(square_sum(i, t));
      live += 1;
    }
    using number = typename decltype(weights)::value_type;
    weights(i) = static_cast<number>(live > 0 ? elementary::exp(sum / live) : 1.0);
  }
}

RLCORE_ALGORITHM_END
RLCORE_END
