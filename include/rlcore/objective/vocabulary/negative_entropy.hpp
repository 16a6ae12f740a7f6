// Entropy of the logits' distribution as a loss.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -H = sum_j p_j log p_j: minimising it rewards entropy. gradient: p_j (log p_j + H). Entries of -inf count as 0.
struct negative_entropy {
  static constexpr logits_field reads = logits_field::none;
  static constexpr std::string_view name = "negative_entropy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V value = times<Math>(e.p, e.logp);
    return {value, value + e.p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
