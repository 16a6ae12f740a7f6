// The scalar that a reward model's head gives to a sequence.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// field::value with slope 1 by it: the mask leaves one token of each row alive, the one where the head is read.
struct head_score {
  static constexpr field reads = field::value;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "head_score";
  static constexpr bool unit_slope = true;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.value, V(1)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
