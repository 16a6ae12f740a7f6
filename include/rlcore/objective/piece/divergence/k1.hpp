// The k1 estimator of KL(policy || reference).
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// d = logp - ref_logp: unbiased as a value. Its slope is 1, whose expectation under the policy is zero, so as a loss
/// it gives no signal: an objective refuses it unless it is wrapped in accept_zero_gradient.
struct k1 {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";
  static constexpr bool zero_mean_gradient = true;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.logp - t.ref_logp, V(1)};
  }
};

/// Lets a piece whose gradient is zero in expectation into a loss nevertheless (verl's kl_loss_type=kl).
template <class Piece>
struct accept_zero_gradient : Piece {
  static constexpr bool zero_mean_gradient = false;
  /// The piece `p`, allowed in a loss.
  constexpr explicit accept_zero_gradient(Piece p) : Piece(p) {}
};

RLCORE_ALGORITHM_END
RLCORE_END
