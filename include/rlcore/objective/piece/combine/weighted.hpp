// Off-policy correction: a piece times the constant per-token weight.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// weighted{piece}: value and slope times field::weight, after the piece's own clipping (verl's order). Monitors are
/// not weighted. A piece that has a ratio to the rollout policy, or a weight inside, is corrected already.
///
/// A piece of one term per sequence is to be weighted per sequence: the same number at each token of a row, as the
/// levels of a rollout correction other than `token` give. Else its slope is not that of its value.
template <class Piece>
struct weighted : passes_on<Piece> {
  static_assert(
      !contains(reads_in_all<Piece>(), field::rollout_logp),
      "rlcore: this piece has a ratio to rollout_logp, so a weight would correct twice; use the piece without "
      "weighted{}, or a ratio to old_logp with it");
  static_assert(!contains(reads_in_all<Piece>(), field::weight),
                "rlcore: this piece applies field::weight itself; leave weighted{} out");
  static constexpr field reads = Piece::reads | field::weight;

  /// The piece `p` times field::weight.
  constexpr explicit weighted(Piece p) : passes_on<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    result.value = result.value * t.weight;
    result.slope = result.slope * t.weight;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
