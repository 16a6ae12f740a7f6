// A margin of one between the rewards, and no force beyond it.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// max(0, 1 - z), z = beta (chosen - rejected): SLiC (Zhao et al. 2023), RSO (Liu et al. 2024); TRL "hinge".
/// slope by chosen: -beta below the margin, 0 at it and beyond (as PyTorch's relu).
struct hinge_link {
  static constexpr std::string_view name = "hinge";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp);
    const V value = Math::select(z >= V(1), V(0), V(1) - z);  // so asked that NaN gets through
    const V slope = Math::select(z >= V(1), V(0), Math::select(z < V(1), V(-beta), z));
    return judged_pair<Math>(value, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
