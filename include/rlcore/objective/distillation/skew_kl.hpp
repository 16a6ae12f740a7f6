// Divergences to a mixture of both models, which is never infinite.
#pragma once

#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/log_mixture.hpp"
#include "rlcore/objective/vocabulary/entry.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// KL(P || alpha P + (1 - alpha) S), 0 < alpha < 1 (DistiLLM, Ko et al. 2024). slope by log S_j: -P_j (1 - alpha) S_j /
/// M_j.
struct skew_forward_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "skew_forward_kl";
  double alpha = 0.1;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V student = e.logp + V(elementary::log1p(-alpha));
    const V mixture = detail::log_add<Math, V>(student, e.teacher_logp + V(elementary::log(alpha)));
    return {times<Math>(e.teacher_p, e.teacher_logp - mixture), -(e.teacher_p * Math::exp(student - mixture))};
  }
};

/// KL(S || alpha S + (1 - alpha) P). slope by log S_j: S_j (log S_j - log M_j + 1 - alpha S_j / M_j).
struct skew_reverse_kl {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "skew_reverse_kl";
  double alpha = 0.1;

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    const V student = e.logp + V(elementary::log(alpha));
    const V mixture = detail::log_add<Math, V>(student, e.teacher_logp + V(elementary::log1p(-alpha)));
    const V value = times<Math>(e.p, e.logp - mixture);
    return {value, value + e.p * (V(1) - Math::exp(student - mixture))};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
