// A logits piece on soft-capped logits.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// softcapped{s, piece}: the piece sees s tanh(logits / s) of the student (Gemma 2; Liger and TRL "softcap"). Teacher
/// logits are taken as the teacher's final ones. Inside tempered or around it, the cap comes before the temperature.
template <class Piece>
struct softcapped {
  static_assert(!composite_piece<Piece>,
                "rlcore: softcapped holds one piece; write sum{softcapped{s, a}, softcapped{s, b}}");
  using decorates = Piece;
  static constexpr logits_field reads = Piece::reads;
  static constexpr std::string_view name = Piece::name;
  static constexpr auto monitors = monitors_of<Piece>();
  double cap;
  [[no_unique_address]] Piece piece;

  /// The piece `p` on logits capped at +-`s`.
  constexpr softcapped(double s, Piece p) : cap(s), piece(p) {}

  /// Throws std::invalid_argument unless the cap is above 0, and where the piece does.
  void check(extent_t vocabulary) const {
    if (!(cap > 0))
      throw std::invalid_argument("rlcore: softcapped: cap " + std::to_string(cap) + ", expected above 0");
    if constexpr (requires { piece.check(vocabulary); }) piece.check(vocabulary);
  }

  template <class T>
  logits_term<monitor_count<Piece>> operator()(logits_position<T> x, logits_gradient<T> g) const noexcept {
    x.logits.softcap = static_cast<T>(cap);
    const logits_source<T> capped = x.logits;
    g.capped = &capped;
    return run_piece(piece, x, g);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
