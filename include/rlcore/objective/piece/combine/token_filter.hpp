// Pieces that act on a choice of tokens.
#pragma once

#include <cstddef>

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// token_filter{piece}: value and slope where field::selected is not 0, and exactly 0 elsewhere, whatever the piece
/// says there. The tokens left out still count in every denominator. Monitors are not masked.
///
/// The high-entropy mask (Wang et al. 2025; TRL top_entropy_quantile) and the off-policy sequence mask (DeepSeek-V3.2;
/// TRL off_policy_mask_threshold) are this around a surrogate, with the selection of the same name. Where several
/// masks apply, `selected` is their product.
template <class Piece>
struct token_filter : passes_on<Piece> {
  static constexpr field reads = Piece::reads | field::selected;

  /// The piece `p` on the selected tokens.
  constexpr explicit token_filter(Piece p) : passes_on<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    const auto out = t.selected == V(0);
    result.value = Math::select(out, V(0), result.value);
    result.slope = Math::select(out, V(0), result.slope);
    return result;
  }
};

/// except_selected{piece}: value and slope where field::selected is 0, and exactly 0 elsewhere. Around a ppo_clip
/// it is Clip-Cov (Cui et al. 2025; verl "clip_cov"), which takes a few tokens of high covariance between advantage and
/// log-prob out of the update.
template <class Piece>
struct except_selected : passes_on<Piece> {
  static constexpr field reads = Piece::reads | field::selected;

  /// The piece `p` on the tokens that are not selected.
  constexpr explicit except_selected(Piece p) : passes_on<Piece>(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Piece>> operator()(const token<V>& t) const noexcept {
    auto result = this->piece.template operator()<Math, V>(t);
    const auto out = t.selected != V(0);
    result.value = Math::select(out, V(0), result.value);
    result.slope = Math::select(out, V(0), result.slope);
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
