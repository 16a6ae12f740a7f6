// Judgements of steps as a regression.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (v - y)^2 with field::value v and field::target y at the step (torch mse_loss). slope by value: 2 (v - y).
struct step_squared_error {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "process_reward";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.value - t.target;
    return {d * d, d + d};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
