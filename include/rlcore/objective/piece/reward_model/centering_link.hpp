// Rewards around zero: preferences alone leave their level free.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (chosen + rejected)^2, slope 2 (chosen + rejected) by either (Eisenstein et al. 2023). Added to the loss of a reward
/// model: mixed{bradley_terry{.beta = 1}, scaled{0.01, centering_link{}}} (TRL center_rewards_coefficient, off by
/// default, 0.01 recommended).
struct centering_link {
  static constexpr std::string_view name = "centering";

  template <class Math, class V>
  RLCORE_FN pair_term<V> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V level = chosen.logp + rejected.logp;
    return {level * level, V(2) * level, V(2) * level};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
