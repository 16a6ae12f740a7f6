// The k2 estimator of KL(policy || reference).
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// d^2 / 2 with d = logp - ref_logp (Schulman 2020; verl's "mse"). The slope d has the gradient of KL(policy ||
/// reference) as its on-policy expectation.
struct k2 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {0.5f * (d * d), d};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
