// The absolute log-ratio to the reference.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// |d| with d = logp - ref_logp (verl's "abs"). slope: sign(d), 0 at 0. Not the gradient of a KL divergence.
struct abs_kl {
  static constexpr field reads = field::logp | field::ref_logp;
  static constexpr std::string_view name = "kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V d = t.logp - t.ref_logp;
    return {Math::abs(d), Math::sign(d)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
