// A divergence whose value is limited.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/divergence/gradient_at_clamp.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN

/// clamp(value, low, high) of another piece: OpenRLHF limits k1, k2 and k3 so. slope: the piece's own, and with
/// gradient_at_clamp::cut 0 where its value lies outside of [low, high]; a slope that has overflown there is cut too,
/// not multiplied by zero. value_clamped{k3{}} is OpenRLHF's k3.
template <class Piece, gradient_at_clamp Gradient = gradient_at_clamp::cut>
struct value_clamped {
  static constexpr field reads = Piece::reads;
  static constexpr field wrt = wrt_of<Piece>();
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  static constexpr bool stops_gradient = Gradient == gradient_at_clamp::pass;
  static constexpr bool zero_mean_gradient = requires { requires Piece::zero_mean_gradient; };
  [[no_unique_address]] Piece piece;
  double low = -10.0, high = 10.0;

  constexpr explicit value_clamped(Piece p, double low_ = -10.0, double high_ = 10.0)
      : piece(p), low(low_), high(high_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = piece.template operator()<Math, V>(t);
    if constexpr (Gradient == gradient_at_clamp::cut)
      result.slope = Math::select(Math::any(result.value<V(low), result.value> V(high)), V(0), result.slope);
    result.value = Math::clamp(result.value, V(low), V(high));
    return result;
  }
};

RLCORE_END
