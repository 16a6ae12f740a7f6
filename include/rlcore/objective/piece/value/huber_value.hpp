// A critic's loss that outliers do not dominate.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// e^2 / 2 for |e| <= delta, else delta (|e| - delta / 2), with e = v - R (Huber 1964). slope by field::value:
/// clamp(e, -delta, delta). None of the systems has it for the critic.
struct huber_value {
  static constexpr field reads = field::value | field::target;
  static constexpr field wrt = field::value;
  static constexpr std::string_view name = "value";
  double delta = 1.0;

  constexpr void check_settings() const { check_setting("huber_value", "delta", delta, setting::positive); }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V error = t.value - t.target;
    const V slope = Math::clamp(error, V(-delta), V(delta));
    return {slope * (error - 0.5f * slope), slope};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
