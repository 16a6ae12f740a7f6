// A squared loss that stops at a finite gap.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (chosen - rejected - 1 / (2 beta))^2 with slope 2 (...) by chosen: IPO (Azar et al. 2024, their tau is beta).
/// On mean_of<log_ratio_to_reference> it is what the authors confirmed and TRL computes; on sum_of it is OpenRLHF's.
/// The two differ by the lengths of the sequences, which is why the gather has to be named.
struct ipo_link {
  static constexpr std::string_view name = "ipo";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V gap = chosen.logp - rejected.logp - V(1 / (2 * beta));
    const V slope = V(2) * gap;
    return judged_pair<Math>(gap * gap, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
