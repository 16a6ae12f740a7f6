// Binary classification of either answer, shown in pairs.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// softplus(-c) + softplus(r) with c = beta chosen, r = beta rejected: BCO on pairs, without a reward shift (Jung et
/// al. 2024; TRL "bco_pair"). slopes: -beta sigmoid(-c), beta sigmoid(r).
struct bco_pair_link {
  static constexpr std::string_view name = "bco_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    return judged_pair<Math>(Math::softplus(-c) + Math::softplus(r), V(-beta) * Math::sigmoid(-c),
                             V(beta) * Math::sigmoid(r), beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
