// Token-level clipped surrogates: PPO, dual clip, two-sided clip, CISPO, SAPO.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// max(-A r, -A clip(r, 1 - low, 1 + high)) with r = exp(logp - old_logp) (Schulman et al. 2017). low = high is PPO and
/// GRPO; high > low is DAPO's clip-higher.
///
/// slope: -A r, and 0 where the clipped branch is the larger. The interval of ratios that are not clipped is closed: at
/// r = 1 - low and r = 1 + high both branches are equal and the slope is the full -A r. Older versions of PyTorch pass
/// all of it at a bound too, 2.15 half of it: its clamp has gradient 0 at the bound, its max divides by two. Monitor:
/// the share of tokens whose clipped branch was taken.
struct ppo_clip {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 1> monitors{"clipfrac"};
  double low = 0.2, high = 0.2;

  constexpr void check_settings() const {
    check_setting("ppo_clip", "low", low, setting::width);
    check_setting("ppo_clip", "high", high, setting::width);
  }

  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp);
    const V free = ratio * t.advantage;
    const V held = Math::clamp(ratio, V(1 - low), V(1 + high)) * t.advantage;
    const auto clipped = free > held;
    return {
        -Math::select(clipped, held, free), Math::select(clipped, V(0), -free), {Math::select(clipped, V(1), V(0))}};
  }
};

/// l = max(-A r, -A clip(r, 1 - low, 1 + high)), and for A < 0 in addition l = min(l, -A bound), with
/// r = exp(clamp(logp - old_logp, -limit, limit)). Dual clip: Ye et al. 2020. The defaults are verl's "vanilla" loss;
/// TRL's `delta` is the same function for A < 0 as long as delta >= 1 + high.
///
/// slope: -A r where l = -A r and the log-ratio is within its limit, else 0. Bounds and limit are closed intervals:
/// older versions of PyTorch pass the gradient at a bound too, 2.15 gives 1/2 at 1 - low and 1 + high, 0 at a limit.
/// Monitors, as in verl's
/// logs: share of tokens clipped, share held by the dual bound, and the mean of -(log-ratio).
struct dual_clip {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 3> monitors{"clipfrac", "clipfrac_lower", "ppo_kl"};
  double low = 0.2, high = 0.2, bound = 3.0, limit = 20.0;

  constexpr void check_settings() const {
    check_setting("dual_clip", "low", low, setting::width);
    check_setting("dual_clip", "high", high, setting::width);
    check_setting("dual_clip", "bound", bound, setting::bound_above_1);
    check_setting("dual_clip", "limit", limit, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& t) const noexcept {
    const V free_log = t.logp - t.old_logp;
    const V log_ratio = Math::clamp(free_log, V(-limit), V(limit));
    const V ratio = Math::exp(log_ratio);
    const V free = ratio * t.advantage;
    const V held = Math::clamp(ratio, V(1 - low), V(1 + high)) * t.advantage;
    const auto clipped = free > held;
    const V upper = -Math::select(clipped, held, free);
    const V ceiling = -(t.advantage * V(bound));
    const auto lowered = Math::all(t.advantage<V(0), upper> ceiling);
    const auto flat = Math::any(clipped, lowered, free_log > V(limit), free_log < V(-limit));
    return {Math::select(lowered, ceiling, upper),
            Math::select(flat, V(0), -free),
            {Math::select(clipped, V(1), V(0)), Math::select(lowered, V(1), V(0)), -log_ratio}};
  }
};

/// max(-A min(r, bound), -A clip(r, 1 - low, 1 + high)) with r = exp(logp - old_logp): INTELLECT-2 (2025), whose bound
/// is 4; TRL and Liger call it `delta`. For A < 0 it is dual clip as long as bound >= 1 + high.
///
/// slope: -A r, and 0 where the branch that counts is held. A bound below 1 + high also takes the slope from positive
/// advantages between the two, and does nothing for negative ones in that range. Monitors: share of tokens clipped, and
/// of those held by the bound.
struct two_sided_clip {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 2> monitors{"clipfrac", "clipfrac_bound"};
  double low = 0.2, high = 0.2, bound = 4.0;

  constexpr void check_settings() const {
    check_setting("two_sided_clip", "low", low, setting::width);
    check_setting("two_sided_clip", "high", high, setting::width);
    check_setting("two_sided_clip", "bound", bound, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp);
    const V free = Math::min(ratio, V(bound)) * t.advantage;
    const V held = Math::clamp(ratio, V(1 - low), V(1 + high)) * t.advantage;
    const auto outside = Math::any(ratio<V(1 - low), ratio> V(1 + high));
    const auto clipped = Math::all(free > held, outside);
    const auto beyond = Math::all(free <= held, ratio > V(bound));
    return {-Math::select(free > held, held, free),
            Math::select(Math::any(clipped, beyond), V(0), -(ratio * t.advantage)),
            {Math::select(clipped, V(1), V(0)), Math::select(beyond, V(1), V(0))}};
  }
};

/// Bounds of a ratio as it is: 5 means r <= 5. Without a lower bound unless one is set.
struct ratio_bound {
  double high, low = 0.0;
};

/// Bounds of a ratio as distances from 1: 0.28 means r <= 1.28. Without a lower bound unless one is set.
struct ratio_epsilon {
  double high, low = 1.0;
};

/// -stop_gradient(clip(r, low, high)) A logp with r = exp(logp - old_logp): CISPO (MiniMax-M1, 2025). slope: -clip(r)
/// A; no token ever loses its gradient. The value is not a divergence or a return; only its gradient means something.
///
/// Systems disagree about what a number means: verl's clip_ratio_high is a distance from 1, TRL's and Liger's
/// epsilon_high is the bound itself. So a bare number does not compile:
///   cispo{ratio_bound{.high = 5}}                  ScaleRL's and TRL's recommendation, the default
///   cispo{ratio_epsilon{.high = 0.2, .low = 0.2}}  verl's defaults
/// A positive lower bound keeps pushing tokens that the policy already avoids; none is set by default. Monitor: share
/// of tokens whose ratio was bounded.
struct cispo {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 1> monitors{"clipfrac"};
  static constexpr bool stops_gradient = true;

  constexpr cispo() noexcept : cispo(ratio_bound{5.0}) {}
  /// Bounds of the ratio as they are.
  constexpr cispo(ratio_bound b) noexcept : low_(b.low), high_(b.high) {}
  /// Bounds of the ratio as distances from 1.
  constexpr cispo(ratio_epsilon e) noexcept : low_(1 - e.low), high_(1 + e.high) {}
  /// Not to be used: a bare number does not say whether it is a bound or a distance from 1.
  template <class Number>
    requires std::is_arithmetic_v<Number>
  constexpr cispo(Number) {
    static_assert(!std::is_arithmetic_v<Number>,
                  "rlcore: is this number a bound of the ratio or its distance from 1? Write "
                  "cispo{ratio_bound{.high = 5}} (TRL, Liger) or cispo{ratio_epsilon{.high = 0.28}} (verl)");
  }

  constexpr double lowest_ratio() const noexcept { return low_; }
  constexpr double highest_ratio() const noexcept { return high_; }

  constexpr void check_settings() const {
    check_setting("cispo", "lowest_ratio", low_, setting::number);
    check_setting("cispo", "highest_ratio", high_, setting::bound);
    check_order("cispo", "lowest_ratio", low_, "highest_ratio", high_);
  }

  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp);
    const V slope = -(Math::clamp(ratio, V(low_), V(high_)) * t.advantage);
    return {slope * t.logp, slope, {Math::select(Math::any(ratio > V(high_), ratio < V(low_)), V(1), V(0))}};
  }

 private:
  double low_, high_;
};

/// -A sigmoid(tau (r - 1)) 4 / tau with r = exp(logp - old_logp): SAPO (Gao et al. 2025; verl, TRL, Liger "sapo"). tau
/// is `temperature_positive` where A > 0, else `temperature_negative`.
///
/// slope: -A r 4 sigmoid(z) sigmoid(-z) with z = tau (r - 1): -A at r = 1 whatever tau is, fading to 0 on both sides
/// without a kink.
struct sapo {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";
  double temperature_positive = 1.0, temperature_negative = 1.05;

  constexpr void check_settings() const {
    check_setting("sapo", "temperature_positive", temperature_positive, setting::positive);
    check_setting("sapo", "temperature_negative", temperature_negative, setting::positive);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    // A ratio beyond float's range is as good as infinite, and the slope at infinity is 0, not 0 * infinity.
    const V ratio = Math::min(Math::exp(t.logp - t.old_logp), V(1e30));
    const auto up = t.advantage > V(0);
    const V z = Math::select(up, V(temperature_positive), V(temperature_negative)) * (ratio - V(1));
    const V scale = t.advantage * Math::select(up, V(4 / temperature_positive), V(4 / temperature_negative));
    // sigmoid(z) and sigmoid(z) sigmoid(-z) from one exponential and one division
    const V e = Math::exp(-Math::abs(z)), larger = V(1) / (V(1) + e), smaller = e * larger;
    return {-(scale * Math::select(z >= V(0), larger, smaller)), -(t.advantage * (V(4) * larger * smaller) * ratio)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
