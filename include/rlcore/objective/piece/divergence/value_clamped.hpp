// A divergence whose value is limited.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"
#include "rlcore/objective/piece/divergence/gradient_at_clamp.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// clamp(value, low, high) of another piece: OpenRLHF limits k1, k2 and k3 so. slope: the piece's own, and with
/// gradient_at_clamp::cut 0 where its value lies outside of [low, high]; a slope that has overflown there is cut too,
/// not multiplied by zero. value_clamped{k3{}} is OpenRLHF's k3.
template <class Piece, gradient_at_clamp Gradient = gradient_at_clamp::cut>
struct value_clamped : passes_on<Piece> {
  static constexpr bool stops_gradient = stops_gradient_of<Piece>() || Gradient == gradient_at_clamp::pass;
  double low = -10.0, high = 10.0;

  /// The piece `p` with its value in [low_, high_].
  constexpr explicit value_clamped(Piece p, double low_ = -10.0, double high_ = 10.0)
      : passes_on<Piece>(p), low(low_), high(high_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    if constexpr (Gradient == gradient_at_clamp::cut)
      result.slope = Math::select(Math::any(result.value<V(low), result.value> V(high)), V(0), result.slope);
    result.value = Math::clamp(result.value, V(low), V(high));
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
