// Half the sum of absolute differences.
#pragma once

#include <string_view>

#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// 1/2 sum_j |S_j - P_j| (Wen et al. 2023; Liger TVD). gradient by z: 1/2 S_j (sign_j - sum_r S_r sign_r) with sign(0)
/// = 0 as in PyTorch; Liger's kernel takes -1 there.
struct total_variation {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "total_variation";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V d = e.p - e.teacher_p;
    return {V(0.5f) * Math::abs(d), V(0.5f) * (Math::sign(d) * e.p)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
