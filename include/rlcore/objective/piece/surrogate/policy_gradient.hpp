// The plain policy gradient.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -A logp: REINFORCE (Williams 1992), GPG. The slope is -A.
struct policy_gradient {
  static constexpr field reads = field::logp | field::advantage;
  static constexpr std::string_view name = "policy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {-(t.advantage * t.logp), -t.advantage};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
