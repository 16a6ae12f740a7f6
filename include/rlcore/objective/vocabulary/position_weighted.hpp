// A logits piece times the constant weight of each position.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// position_weighted{piece}: value and gradient times logits_batch::weight. Monitors are not weighted.
template <class Piece>
struct position_weighted {
  static_assert(!composite_piece<Piece>,
                "rlcore: position_weighted holds one piece; write sum{position_weighted{a}, position_weighted{b}}");
  using decorates = Piece;
  static constexpr logits_field reads = Piece::reads | logits_field::weight;
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  [[no_unique_address]] Piece piece;

  /// The piece `p` times the weight of the position.
  constexpr explicit position_weighted(Piece p) : piece(p) {}

  /// Throws std::invalid_argument where the piece does.
  void check([[maybe_unused]] extent_t vocabulary) const {
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<monitor_count<Piece>> operator()(const logits_position<T>& x, logits_gradient<T> g) const noexcept {
    g.scale *= x.weight;
    auto result = run_piece(piece, x, g);
    result.value *= static_cast<double>(x.weight);
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
