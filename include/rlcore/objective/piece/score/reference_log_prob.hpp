// The likelihood of a sequence under the reference policy.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// ref_logp, a constant: for links that compare the two policies other than by their difference (AOT).
struct reference_log_prob {
  static constexpr field reads = field::ref_logp;
  static constexpr std::string_view name = "reference_log_prob";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {t.ref_logp, V(0)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
