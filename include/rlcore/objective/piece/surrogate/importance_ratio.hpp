// The policy gradient with an importance ratio.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -A r with r = exp(logp - old_logp), not clipped: the surrogate of which ppo_clip is the pessimistic bound, and
/// the base of KL-Cov. slope: -A r. At logp = old_logp it is the plain policy gradient.
struct importance_ratio {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V value = -(Math::exp(t.logp - t.old_logp) * t.advantage);
    return {value, value};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
