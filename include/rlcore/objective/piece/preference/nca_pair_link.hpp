// Noise contrastive alignment: the likelihood of the chosen answer must not sink.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// softplus(-c) + softplus(c) / 2 + softplus(r) / 2 with c = beta chosen, r = beta rejected: NCA for two answers (Chen
/// et al. 2024; TRL "nca_pair"). slopes: beta (sigmoid(c) / 2 - sigmoid(-c)), beta sigmoid(r) / 2.
struct nca_pair_link {
  static constexpr std::string_view name = "nca_pair";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = V(beta) * chosen.logp, r = V(beta) * rejected.logp;
    const V value = Math::softplus(-c) + V(0.5) * Math::softplus(c) + V(0.5) * Math::softplus(r);
    const V slope_chosen = V(beta) * (V(0.5) * Math::sigmoid(c) - Math::sigmoid(-c));
    const V slope_rejected = V(0.5 * beta) * Math::sigmoid(r);
    return judged_pair<Math>(value, slope_chosen, slope_rejected, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
