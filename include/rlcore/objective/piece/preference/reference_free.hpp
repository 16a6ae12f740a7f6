// Reference-free preference losses: ORPO, AlphaPO.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -beta log sigmoid(o), o = log odds(chosen) - log odds(rejected), log odds(a) = a - log(1 - e^a): the ratio term of
/// ORPO (Hong et al. 2024). Use on mean_of<log_prob> over the response; the likelihood term over the chosen rows is a
/// second call with negative_log_likelihood, over the span of its own mask (TRL includes the prompt).
///
/// log(1 - e^a) keeps its digits at both ends. slope by chosen: -beta sigmoid(-o) / (1 - e^chosen), finite also for a
/// chosen answer that is certain (a = 0), where the product of its factors is 0 * infinity; by rejected:
/// beta sigmoid(-o) / (1 - e^rejected). Monitors: those of every pair link, log sigmoid(o), o.
struct orpo_link {
  static constexpr std::string_view name = "orpo";
  static constexpr std::array<std::string_view, 5> monitors{pair_monitors[0], pair_monitors[1], pair_monitors[2],
                                                            "log_odds_ratio", "log_odds_chosen"};
  double beta = 0.1;  ///< a weight of the term, not a scale: 0 leaves the likelihood alone

  constexpr void check_settings() const { check_setting("orpo_link", "beta", beta, setting::coefficient); }

  template <class Math, class V>
  RLCORE_FN pair_term<V, 5> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V c = chosen.logp, r = rejected.logp;
    const V rest_c = log1m_exp<Math>(c), rest_r = log1m_exp<Math>(r);
    const V o = (c - r) - (rest_c - rest_r);
    const V loss = Math::softplus(-o), wrong = Math::sigmoid(-o);
    // sigmoid(-o) = sigmoid(o) e^-o, in which 1 - e^chosen cancels
    const V by_chosen =
        Math::select(o >= V(0), Math::sigmoid(o) * Math::exp(r - c - rest_r), wrong * Math::exp(-rest_c));
    return {V(beta) * loss,
            V(-beta) * by_chosen,
            V(beta) * (wrong * Math::exp(-rest_r)),
            {Math::select(c > r, V(1), V(0)), V(beta) * c, V(beta) * r, -loss, o}};
  }
};

/// The logistic loss of z = beta (a(chosen) - a(rejected)) - margin with a(x) = (1 - e^{-alpha x}) / alpha: AlphaPO
/// (Gupta et al. 2025; TRL's CPO with alpha). Use on mean_of<log_prob>. alpha 0 is SimPO. The defaults of beta and
/// margin are TRL's (simpo_gamma).
///
/// In log-space throughout: the gap is the larger of the two powers times expm1 of minus their distance, over alpha,
/// and a slope sigmoid(-z) e^{-alpha x} is one exponential, so that a confident pair of improbable sequences has slope
/// 0 and not 0 * infinity. Slopes: beta (smoothing sigmoid(z) - (1 - smoothing) sigmoid(-z)) e^{-alpha chosen}, and
/// minus that with e^{-alpha rejected}.
struct alpha_po_link {
  static constexpr std::string_view name = "alpha_po";
  static constexpr auto monitors = pair_monitors;
  double alpha = 0.25;
  positive beta = 0.1;
  double margin = 0.5, smoothing = 0.0;

  constexpr void check_settings() const {
    check_setting("alpha_po_link", "alpha", alpha, setting::finite);
    check_setting("alpha_po_link", "margin", margin, setting::finite);
    check_setting("alpha_po_link", "smoothing", smoothing, setting::below_1);
  }

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V a(alpha), apart = chosen.logp - rejected.logp, x = a * apart;
    const V bent = Math::select(x >= V(0), Math::exp(-(a * rejected.logp)) * -Math::expm1(-x),
                                Math::exp(-(a * chosen.logp)) * Math::expm1(x));
    const V z = V(beta) * (alpha == 0 ? apart : bent / a) - V(margin);
    const V up = Math::softplus(z), down = Math::softplus(-z);  // -log sigmoid(-z), -log sigmoid(z)
    const auto slope = [&](const V& logp) {
      const V held = V(1 - smoothing) * Math::exp(-up - a * logp);
      const V flipped = Math::select(V(smoothing) > V(0), V(smoothing) * Math::exp(-down - a * logp), V(0));
      return V(beta) * (flipped - held);
    };
    const auto reward = [&](const V& logp) { return V(beta) * (alpha == 0 ? logp : -Math::expm1(-(a * logp)) / a); };
    return {smoothed_logistic<Math>(z, smoothing).value,
            slope(chosen.logp),
            -slope(rejected.logp),
            {Math::select(chosen.logp > rejected.logp, V(1), V(0)), reward(chosen.logp), reward(rejected.logp)}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
