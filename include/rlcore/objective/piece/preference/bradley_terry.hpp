// The logistic loss on a difference of scores: DPO and reward models.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -(1 - smoothing) log sigmoid(z) - smoothing log sigmoid(-z) with z = beta (chosen - rejected) - margin.
/// On log-ratios to the reference it is DPO (Rafailov et al. 2023), with smoothing cDPO; on the scores of a head and
/// beta = 1 it is the Bradley-Terry loss of a reward model; on log-probs CPO, and with a margin SimPO. slope by chosen:
/// beta (sigmoid(z) - (1 - smoothing)).
/// Monitors: share of pairs ranked right, and the rewards beta * score of both sides.
struct bradley_terry {
  static constexpr std::string_view name = "preference";
  static constexpr auto monitors = pair_monitors;
  positive beta = 0.1;
  double smoothing = 0.0, margin = 0.0;

  constexpr void check_settings() const {
    check_setting("bradley_terry", "smoothing", smoothing, setting::below_1);
    check_setting("bradley_terry", "margin", margin, setting::finite);
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = V(beta) * (chosen.logp - rejected.logp) - V(margin);
    const term<V> loss = smoothed_logistic<Math>(z, smoothing);
    const V slope = V(beta) * loss.slope;
    return judged_pair<Math>(loss.value, slope, -slope, beta, chosen, rejected);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
