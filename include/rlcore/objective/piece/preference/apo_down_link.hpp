// Anchored preference optimization for chosen answers that are worse than the model's own.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// sigmoid(beta chosen) + sigmoid(-beta (chosen - rejected)): APO-down (D'Oosterlinck et al. 2024, equation 8; TRL
/// "apo_down"): both answers down, the rejected one more. slopes with a = beta chosen, z = beta (chosen - rejected):
/// beta (s(a) s(-a) - s(z) s(-z)), beta s(z) s(-z).
struct apo_down_link {
  static constexpr std::string_view name = "apo_down";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V a = V(beta) * chosen.logp, z = V(beta) * (chosen.logp - rejected.logp);
    const V level = Math::sigmoid(a), missed = Math::sigmoid(-z);
    const V apart = V(beta) * (missed * Math::sigmoid(z));
    return judged_pair<Math>(level + missed, V(beta) * (level * Math::sigmoid(-a)) - apart, apart, beta, chosen,
                             rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
