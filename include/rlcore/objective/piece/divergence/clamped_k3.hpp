// The k3 estimator with verl's clamps.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/divergence/gradient_at_clamp.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// min(e^c - 1 - c, value_limit) with c = clamp(ref_logp - logp, -limit, limit): verl's "low_var_kl".
///
/// slope: 1 - e^c. With gradient_at_clamp::cut, as in verl, it is 0 beyond either limit: with the defaults a token gets
/// no restoring force where ref_logp - logp is above 2.61 or below -11.0. With pass it keeps 1 - e^c, which is at most
/// e^limit in size.
template <gradient_at_clamp Gradient>
struct limited_k3 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  static constexpr bool stops_gradient = Gradient == gradient_at_clamp::pass;
  double limit = 20.0, value_limit = 10.0;

  constexpr void check_settings() const {
    check_setting("clamped_k3", "limit", limit, setting::bound);
    check_setting("clamped_k3", "value_limit", value_limit, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V free = t.ref_logp - t.logp;
    const V e = Math::clamp(free, V(-limit), V(limit));
    const V value = Math::excess(e), slope = -Math::expm1(e);
    if constexpr (Gradient == gradient_at_clamp::pass) return {Math::min(value, V(value_limit)), slope};
    const auto flat = Math::any(value > V(value_limit), free > V(limit), free < V(-limit));
    return {Math::min(value, V(value_limit)), Math::select(flat, V(0), slope)};
  }
};

/// verl's: no slope beyond either limit.
using clamped_k3 = limited_k3<gradient_at_clamp::cut>;
using low_var_kl = clamped_k3;  ///< verl's word

RLCORE_ALGORITHM_END
RLCORE_END
