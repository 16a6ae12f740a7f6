// The reverse KL from the policy's preference to the annotators'.
#pragma once

#include <stdexcept>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// How much the annotators doubt a label: in (0, 1), anything else throws std::invalid_argument. There is no loss for
/// 0: the KL to a certain preference is infinite.
struct label_doubt {
  double value;
  /// Throws std::invalid_argument unless 0 < p < 1.
  constexpr label_doubt(double p) : value(p) {
    if (!(p > 0 && p < 1)) throw std::invalid_argument("rlcore: the doubt of exo_pair_link is above 0 and below 1");
  }
};

/// s log(s / (1 - e)) + (1 - s) log((1 - s) / e), s = sigmoid(beta (chosen - rejected)): EXO for pairs (Ji et al. 2024,
/// equation 16; TRL "exo_pair", where e is label_smoothing). slope by chosen: beta s (1 - s) (z + log e - log(1 - e)).
struct exo_pair_link {
  static constexpr std::string_view name = "exo_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  label_doubt doubt = 1e-3;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V s = Math::sigmoid(z), other = Math::sigmoid(-z);
    const V log_right(elementary::log1p(-doubt.value)), log_wrong(elementary::log(doubt.value));
    const V value = s * (-Math::softplus(-z) - log_right) + other * (-Math::softplus(z) - log_wrong);
    const V slope = V(beta) * (s * other) * (z + log_wrong - log_right);
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
