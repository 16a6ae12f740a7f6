// The surrogate with a soft gate.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -A sigmoid(tau (r - 1)) 4 / tau with r = exp(logp - old_logp): SAPO (Gao et al. 2025; verl, TRL, Liger "sapo"). tau
/// is `temperature_positive` where A > 0, else `temperature_negative`.
///
/// slope: -A r 4 sigmoid(z) sigmoid(-z) with z = tau (r - 1): -A at r = 1 whatever tau is, fading to 0 on both sides
/// without a kink.
struct sapo {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  double temperature_positive = 1.0, temperature_negative = 1.05;

  constexpr void check_settings() const {
    check_setting("sapo", "temperature_positive", temperature_positive, setting::positive);
    check_setting("sapo", "temperature_negative", temperature_negative, setting::positive);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    // A ratio beyond float's range is as good as infinite, and the slope at infinity is 0, not 0 * infinity.
    const V ratio = Math::min(Math::exp(t.logp - t.old_logp), V(1e30));
    const auto up = t.advantage > V(0);
    const V z = Math::select(up, V(temperature_positive), V(temperature_negative)) * (ratio - V(1));
    const V scale = t.advantage * Math::select(up, V(4 / temperature_positive), V(4 / temperature_negative));
    // sigmoid(z) and sigmoid(z) sigmoid(-z) from one exponential and one division
    const V e = Math::exp(-Math::abs(z)), larger = V(1) / (V(1) + e), smaller = e * larger;
    return {-(scale * Math::select(z >= V(0), larger, smaller)), -(t.advantage * (V(4) * larger * smaller) * ratio)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
