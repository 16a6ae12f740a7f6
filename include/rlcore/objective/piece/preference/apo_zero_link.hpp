// Anchored preference optimization for chosen answers that are better than the model's own.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// sigmoid(-beta chosen) + sigmoid(beta rejected): APO-zero (D'Oosterlinck et al. 2024, equation 7; TRL "apo_zero"):
/// the chosen answer up, the rejected one down. slopes: -beta s (1 - s), beta s (1 - s), each s of its own side.
struct apo_zero_link {
  static constexpr std::string_view name = "apo_zero";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    const V missed = Math::sigmoid(-c), kept = Math::sigmoid(r);
    return judged_pair<Math>(missed + kept, V(-beta) * (missed * Math::sigmoid(c)),
                             V(beta) * (kept * Math::sigmoid(-r)), beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
