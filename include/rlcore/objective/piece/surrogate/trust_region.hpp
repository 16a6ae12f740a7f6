// DPPO: trust-region surrogates by total variation or KL.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -stop_gradient(min(r, bound) M) A logp: DPPO-Binary-TV (Qi et al. 2026; verl "dppo_tv"). With the probabilities
/// p = exp(logp) and p_old = exp(old_logp) of the sampled token, M is 0 where an update would lead further out of the
/// trust region: A > 0 and p - p_old > high, or A <= 0 and p_old - p > low; else 1. slope: -min(r, bound) M A.
///
/// `low` and `high` are total variations, not widths of a ratio; 0.15 is the setting of verl's example. The log-ratio
/// is clamped to +-limit (verl), the probabilities in M are not. Monitors: share of tokens left out, and of those kept
/// with r > bound.
struct dppo_tv {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 2> monitors{"clipfrac", "clipfrac_bound"};
  static constexpr bool stops_gradient = true;
  static constexpr bool reads_probabilities = true;
  double low = 0.15, high = 0.15, bound = 20.0, limit = 20.0;

  constexpr void check_settings() const {
    check_setting("dppo_tv", "low", low, setting::width);
    check_setting("dppo_tv", "high", high, setting::width);
    check_setting("dppo_tv", "bound", bound, setting::bound);
    check_setting("dppo_tv", "limit", limit, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V moved = Math::exp(t.logp) - Math::exp(t.old_logp);
    const auto upward = t.advantage > V(0);
    const auto out = Math::any(Math::all(upward, moved > V(high)), Math::all(t.advantage <= V(0), moved < V(-low)));
    const V ratio = Math::exp(Math::clamp(t.logp - t.old_logp, V(-limit), V(limit)));
    const V slope = Math::select(out, V(0), -(Math::min(ratio, V(bound)) * t.advantage));
    return {slope * t.logp,
            slope,
            {Math::select(out, V(1), V(0)), Math::select(out, V(0), Math::select(ratio > V(bound), V(1), V(0)))}};
  }
};

/// The same with the divergence KL(Bernoulli(p_old) || Bernoulli(p)): DPPO-Binary-KL (verl "dppo_kl"). A token is left
/// out where that is above `high` (A > 0 and p > p_old) or above `low` (A <= 0 and p < p_old). 0.05 is the setting of
/// verl's example. `floor` is added to both 1 - p, as in verl, so that a token with p = 1 has a finite divergence. A
/// token that the old policy had at p = 0 is filtered by the second summand alone; one whose divergence is no number is
/// left out.
struct dppo_kl {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 2> monitors{"clipfrac", "clipfrac_bound"};
  static constexpr bool stops_gradient = true;
  static constexpr bool reads_probabilities = true;
  double low = 0.05, high = 0.05, bound = 20.0, limit = 20.0, floor = 1e-8;

  constexpr void check_settings() const {
    check_setting("dppo_kl", "low", low, setting::width);
    check_setting("dppo_kl", "high", high, setting::width);
    check_setting("dppo_kl", "bound", bound, setting::bound);
    check_setting("dppo_kl", "limit", limit, setting::bound);
    check_setting("dppo_kl", "floor", floor, setting::fraction);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V log_ratio = t.logp - t.old_logp;
    const V other_old = -Math::expm1(t.old_logp), other = -Math::expm1(t.logp);  // 1 - p without cancellation
    const V p_old = Math::exp(t.old_logp);
    const V of_token = Math::select(p_old == V(0), V(0), p_old * log_ratio);  // 0 log 0 is 0
    const V kl = other_old * Math::log((other_old + V(floor)) / (other + V(floor))) - of_token;
    const auto out = Math::any(Math::all(t.advantage > V(0), !(kl <= V(high)), log_ratio > V(0)),
                               Math::all(t.advantage <= V(0), !(kl <= V(low)), log_ratio < V(0)));
    const V ratio = Math::exp(Math::clamp(log_ratio, V(-limit), V(limit)));
    const V slope = Math::select(out, V(0), -(Math::min(ratio, V(bound)) * t.advantage));
    return {slope * t.logp,
            slope,
            {Math::select(out, V(1), V(0)), Math::select(out, V(0), Math::select(ratio > V(bound), V(1), V(0)))}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
