// Self-play preference optimization with a certain winner.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (chosen - 1 / (2 beta))^2 + (rejected + 1 / (2 beta))^2: SPPO (Wu et al. 2024, equation 4.7) with probability 1 for
/// the winner and 0 for the loser; beta is 1 / eta of the paper. TRL "sppo_hard". slopes: 2 (...) of either square.
struct sppo_hard_link {
  static constexpr std::string_view name = "sppo_hard";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V aim(1 / (2 * beta));
    const V c = chosen.logp - aim, r = rejected.logp + aim;
    return judged_pair<Math>(c * c + r * r, V(2) * c, V(2) * r, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
