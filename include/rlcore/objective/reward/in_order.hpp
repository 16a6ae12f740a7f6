// Several shapings, one after the other.
#pragma once

#include <tuple>

#include "rlcore/objective/reward/response.hpp"

RLCORE_BEGIN

/// in_order{soft_overlong{...}, reward_clip{}}: each sees the reward that the one before it returned. The order is part
/// of the type: what is clipped before a penalty and what after it cannot be confused.
template <class... Shapings>
struct in_order {
  std::tuple<Shapings...> shapings;

  constexpr explicit in_order(Shapings... s) : shapings(s...) {}

  constexpr double operator()(response r) const {
    std::apply([&r](const Shapings&... shaping) { ((r.reward = shaping(r)), ...); }, shapings);
    return r.reward;
  }
};

RLCORE_END
