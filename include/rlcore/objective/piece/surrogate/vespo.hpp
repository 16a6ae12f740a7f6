// The policy gradient weighted by a gamma density of the sequence's ratio.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"
#include "rlcore/objective/piece/surrogate/log_ratio_scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -stop_gradient(phi(w)) A logp with w = exp(sum over the row of the log-ratio) and phi(w) = w^k e^(lambda (1 - w)),
/// which is 1 at w = 1 and fades to 0 on both sides: VESPO (2026; TRL, Liger "vespo"). k and lambda depend on the sign
/// of A; log w is held within [lowest, limit], so that phi is finite for any lambda > 0. slope: -phi A.
///
/// `vespo` sums clamp(logp - old_logp, +-20); `corrected_vespo` folds the tokens' off-policy weights into w (and must
/// not be weighted again).
template <class Score>
struct gamma_weighted {
  using gathers = sum_of<Score>;
  static constexpr field reads = field::logp | field::advantage | field::gathered;
  static constexpr std::string_view name = "policy";
  static constexpr bool stops_gradient = true;
  double k_positive = 2.0, lambda_positive = 3.0;  ///< where A >= 0
  double k_negative = 3.0, lambda_negative = 2.0;
  double lowest = -18.420680743952367, limit = 20.0;  ///< log(1e-8)

  constexpr void check_settings() const {
    check_setting("vespo", "k_positive", k_positive, setting::coefficient);
    check_setting("vespo", "lambda_positive", lambda_positive, setting::coefficient);
    check_setting("vespo", "k_negative", k_negative, setting::coefficient);
    check_setting("vespo", "lambda_negative", lambda_negative, setting::coefficient);
    check_setting("vespo", "lowest", lowest, setting::number);
    check_setting("vespo", "limit", limit, setting::number);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const auto positive = t.advantage >= V(0);
    const V k = Math::select(positive, V(k_positive), V(k_negative));
    const V lambda = Math::select(positive, V(lambda_positive), V(lambda_negative));
    const V log_w = Math::clamp(t.gathered, V(lowest), V(limit));
    const V slope = -(Math::exp(k * log_w - lambda * Math::expm1(log_w)) * t.advantage);
    return {slope * t.logp, slope};
  }
};

/// Of the sum of clamp(logp - old_logp, +-20) over the row.
using vespo = gamma_weighted<limited_log_ratio_to_old>;
/// Of the same with the off-policy weights of the tokens folded in.
using corrected_vespo = gamma_weighted<corrected_log_ratio_to_old>;

RLCORE_ALGORITHM_END
RLCORE_END
