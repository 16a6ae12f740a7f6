// Divergence from the student to the teacher.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// KL(S || P) = sum_j S_j (log S_j - log P_j): seeks the teacher's modes (MiniLLM, Gu et al. 2024; beta = 1 of GKD).
/// gradient by z: S_j ((log S_j - log P_j) - KL). Infinite where P lacks an entry that S has.
struct reverse_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "reverse_kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V value = times<Math>(e.p, e.logp - e.teacher_logp);
    return {value, value + e.p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
