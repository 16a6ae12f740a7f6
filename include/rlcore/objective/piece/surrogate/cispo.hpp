// The policy gradient with a bounded, constant importance ratio.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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
/// epsilon_high is the bound itself. So there is no bare number here:
///   cispo{ratio_bound{.high = 5}}                  ScaleRL's and TRL's recommendation, the default
///   cispo{ratio_epsilon{.high = 0.2, .low = 0.2}}  verl's defaults
/// A positive lower bound keeps pushing tokens that the policy has left already; there is none by default.
/// Monitor: share of tokens whose ratio was bounded.
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

RLCORE_ALGORITHM_END
RLCORE_END
