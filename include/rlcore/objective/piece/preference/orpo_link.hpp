// The odds of the chosen answer against those of the rejected one.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/log1m_exp.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -beta log sigmoid(o), o = log odds(chosen) - log odds(rejected), log odds(a) = a - log(1 - e^a): the ratio term of
/// ORPO (Hong et al. 2024). Use on mean_of<log_prob> over the response; the likelihood term over the chosen rows is a
/// second call with negative_log_likelihood, over whichever span its own mask shows (TRL includes the prompt there).
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

RLCORE_ALGORITHM_END
RLCORE_END
