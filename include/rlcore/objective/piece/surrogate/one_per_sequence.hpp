// The promise that a term is the sequence's, not the token's.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// one_per_sequence{piece}: the piece's value is the same at each token of a row, and is meant once per row. An
/// aggregation that would count long sequences more than once is then refused (huggingface/trl#4557,
/// verl-project/verl#2775). one_per_sequence{sequence_is{ppo_clip{}}} is GSPO.
///
/// One term per row has one advantage per row: the loop refuses one per token. OpenRLHF and TRL differentiate the
/// sequence's ratio itself and would give every token the mean of its row's terms; verl gives each token its own, which
/// is sequence_is without this promise.
template <class Piece>
struct one_per_sequence : passes_on<Piece> {
  static_assert(contains(Piece::reads, field::gathered),
                "rlcore: only a piece that reads what was gathered over its row has one value per sequence, e.g. "
                "one_per_sequence{sequence_is{ppo_clip{}}}");
  static constexpr bool per_sequence = true;
  static constexpr field row_fields = per_row_fields_of<Piece>() | field::advantage;

  /// The piece `p`, whose value is the same at each token of a row.
  constexpr explicit one_per_sequence(Piece p) : passes_on<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    return this->piece.template operator()<Math, V>(t);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
