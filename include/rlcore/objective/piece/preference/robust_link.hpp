// The unbiased correction for labels that are flipped with a known probability.
#pragma once

#include <stdexcept>
#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// The probability that a label is the wrong way round: in [0, 1/2), anything else throws std::invalid_argument.
struct flip_probability {
  double value;
  /// Throws std::invalid_argument unless 0 <= p < 1/2.
  constexpr flip_probability(double p) : value(p) {
    if (!(p >= 0 && p < 0.5)) throw std::invalid_argument("rlcore: a flip probability is at least 0 and below 1/2");
  }
};

/// [-(1 - e) log sigmoid(z) + e log sigmoid(-z)] / (1 - 2 e), z = beta (chosen - rejected): robust DPO (Chowdhury et
/// al. 2024; TRL "robust"). Written as softplus(-z) - e z / (1 - 2 e), which does not cancel; unbounded below for e >
/// 0. slope by chosen: -beta (sigmoid(-z) + e / (1 - 2 e)).
struct robust_link {
  static constexpr std::string_view name = "robust";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  flip_probability flips = 0.0;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V gain(flips.value / (1 - 2 * flips.value));
    const V value = Math::softplus(-z) - Math::select(gain > V(0), gain * z, V(0));
    const V slope = V(-beta) * (Math::sigmoid(-z) + gain);
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
