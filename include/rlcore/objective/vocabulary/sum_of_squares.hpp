// The collision probability of the logits' distribution.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// sum_j p_j^2, the chance that two samples agree (verl sum_pi_squared, of the optimal token baseline). gradient:
/// 2 p_j (p_j - sum p^2).
struct sum_of_squares {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "sum_of_squares";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V square = e.p * e.p;
    return {square, square + square};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
