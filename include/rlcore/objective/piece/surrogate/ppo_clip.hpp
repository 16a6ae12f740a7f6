// The clipped surrogate of PPO, GRPO and DAPO.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// max(-A r, -A clip(r, 1 - low, 1 + high)) with r = exp(logp - old_logp) (Schulman et al. 2017). low = high is PPO and
/// GRPO; high > low is DAPO's clip-higher.
///
/// slope: -A r, and 0 where the clipped branch is the larger. The interval of ratios that are not clipped is closed: at
/// r = 1 - low and r = 1 + high both branches are equal and the slope is the full -A r. Older versions of PyTorch
/// pass all of it at a bound too, 2.15 half of it: its clamp has gradient 0 there, its max divides by two. Monitor: the
/// share of tokens whose clipped branch was taken.
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

RLCORE_ALGORITHM_END
RLCORE_END
