// The clipped surrogate as verl computes it: with dual clip and a limit on the log-ratio.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

RLCORE_ALGORITHM_END
RLCORE_END
