// Regression of a sequence's score on a number.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A row link: (beta score - eta target)^2. slope: 2 beta (beta score - eta target). Aggregated by sequence_mean.
///
/// On sum_of<log_ratio_to_reference>, beta = 1e-3 and target = reward - optimal value it is A*-PO (Brantley et al.
/// 2025; TRL A2PO). On sum_of<log_ratio_to_old> with target = reward it is SPPO as online regression (Wu et al. 2024;
/// verl's recipe, eta = 1). With target = advantage + the group's mean of beta score, computed beforehand, it is GVPO
/// for groups that are spread over micro-batches (see gvpo).
struct squared_residual {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "regression";
  double beta = 1.0, eta = 1.0;

  constexpr void check_settings() const {
    check_setting("squared_residual", "beta", beta, setting::positive);
    check_setting("squared_residual", "eta", eta, setting::finite);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V residual = V(beta) * t.logp - V(eta) * t.target;
    return {residual * residual, V(2 * beta) * residual};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
