// Several shapings of a reward, one after the other.
#pragma once

#include <tuple>

#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// reward_shaping{soft_overlong{...}, scale_truncated{0.5}}: each sees the reward that the one before it returned. The
/// order is part of the type: whether a penalty is scaled with the reward or added to the scaled one cannot be
/// confused. What comes next, e.g. clipping and the baseline, is in_order's.
template <class... Shapings>
struct reward_shaping {
  std::tuple<Shapings...> shapings;

  /// The shapings in the order in which they are applied.
  constexpr explicit reward_shaping(Shapings... s) : shapings(s...) {}

  /// The reward that the last shaping returns.
  constexpr double operator()(response r) const {
    std::apply([&r](const Shapings&... shaping) { ((r.reward = shaping(r)), ...); }, shapings);
    return r.reward;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
