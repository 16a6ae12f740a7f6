// The k3 estimator of KL(policy || reference).
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// e^-d - 1 + d with d = logp - ref_logp (Schulman 2020; GRPO; TRL's beta term). Never negative. slope: 1 - e^-d, whose
/// on-policy expectation is the gradient of KL(reference || policy), the other direction. Computed without the
/// cancellation near d = 0 that its definition has.
struct k3 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V e = t.ref_logp - t.logp;
    return {Math::excess(e), -Math::expm1(e)};
  }

  /// r times the value for r = exp(logp - old_logp). Where e^-d is large the product is exp(ref_logp - old_logp) less
  /// r (1 - d), which also holds where e^-d overflows and r is 0.
  template <class Math, class V>
  RLCORE_FN V value_times_ratio(const token<V>& t, const V& ratio) const noexcept {
    const V e = t.ref_logp - t.logp;
    const V apart = Math::exp(t.ref_logp - t.old_logp) - ratio * (V(1) + Math::min(e, V(1e30)));
    return Math::select(e > V(30), apart, ratio * Math::excess(e));
  }
  /// value + slope, which is d without rounding: what the product rule with a ratio needs (ratio_corrected).
  template <class Math, class V>
  RLCORE_FN V value_plus_slope(const token<V>& t) const noexcept {
    return t.logp - t.ref_logp;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
