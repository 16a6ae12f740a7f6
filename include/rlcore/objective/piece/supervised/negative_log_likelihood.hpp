// The log-likelihood of what was written.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -logp with slope -1: supervised fine-tuning, and the companion of preference losses on their chosen rows (CPO, RPO,
/// ORPO, TPO's gold answers), there as a second call of evaluate with token_gradients::add.
struct negative_log_likelihood {
  static constexpr field reads = field::logp;
  static constexpr std::string_view name = "negative_log_likelihood";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {-t.logp, V(-1)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
