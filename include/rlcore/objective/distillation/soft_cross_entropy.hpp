// Cross-entropy against the teacher's distribution.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// -sum_j P_j log S_j: the forward KL plus the teacher's entropy, with the same gradient S_j - P_j (OpenRLHF's former
/// KDLoss). Next to a label: sum{scaled{1 - k, cross_entropy{}}, scaled{k, soft_cross_entropy{}}}.
struct soft_cross_entropy {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "soft_cross_entropy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    return {-times<Math>(e.teacher_p, e.logp), -e.teacher_p};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
