// The clipped surrogate whose ratio is bounded for negative advantages too.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// max(-A min(r, bound), -A clip(r, 1 - low, 1 + high)) with r = exp(logp - old_logp): INTELLECT-2 (2025), whose bound
/// is 4; TRL and Liger call it `delta`. For A < 0 it is dual clip as long as bound >= 1 + high.
///
/// slope: -A r, and 0 where the branch that counts is held. A bound below 1 + high also takes the slope from positive
/// advantages between the two, and does nothing for negative ones there. Monitors: share of tokens clipped, and of
/// those held by the bound.
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

RLCORE_ALGORITHM_END
RLCORE_END
