// Bounds for rewards.
#pragma once

#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN

/// clamp(reward, low, high). The defaults are OpenRLHF's, which however clips what is left after the group's baseline
/// has been subtracted; on rewards, as here, it is what TRL's RLOO does.
struct reward_clip {
  double low = -10.0, high = 10.0;
  constexpr double operator()(double reward) const noexcept {
    return reward < low ? low : reward > high ? high : reward;
  }
  constexpr double operator()(const response& r) const noexcept { return (*this)(r.reward); }
};

RLCORE_END
