// The plain squared error of a critic.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// (v - R)^2 / 2, with R in field::target. slope by field::value: v - R. OpenRLHF's value loss without clip range.
struct squared_value {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "value";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V error = t.value - t.target;
    return {0.5f * (error * error), error};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
