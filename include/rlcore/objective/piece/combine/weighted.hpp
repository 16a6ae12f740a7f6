// Off-policy correction: a piece times the constant per-token weight.
#pragma once

#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"

RLCORE_BEGIN

/// weighted{piece}: value and slope times field::weight, after the piece's own clipping (verl's order). Monitors are
/// not weighted.
template <class Piece>
struct weighted {
  static_assert(!composite_piece<Piece>,
                "rlcore: weighted holds one piece; write sum{weighted{a}, weighted{b}}, not weighted{sum{a, b}}");
  static constexpr field reads = Piece::reads | field::weight;
  static constexpr field wrt = wrt_of<Piece>();
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  using gathers = gathers_of<Piece>;
  static constexpr bool per_sequence = is_per_sequence<Piece>;
  [[no_unique_address]] Piece piece;

  constexpr explicit weighted(Piece p) : piece(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = piece.template operator()<Math, V>(t);
    result.value = result.value * t.weight;
    result.slope = result.slope * t.weight;
    return result;
  }
};

RLCORE_END
