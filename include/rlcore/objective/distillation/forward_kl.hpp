// Divergence from the teacher to the student.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// KL(P || S) = sum_j P_j (log P_j - log S_j), P the teacher, S the student: covers the teacher's modes (Hinton et al.
/// 2015; beta = 0 of GKD). gradient by z: S_j - P_j. For KL(reference || policy), "full reverse" of a KL penalty, the
/// reference is the teacher. Infinite where S lacks an entry that P has; the gradient is finite there too.
struct forward_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "forward_kl";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    return {times<Math>(e.teacher_p, e.teacher_logp - e.logp), -e.teacher_p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
