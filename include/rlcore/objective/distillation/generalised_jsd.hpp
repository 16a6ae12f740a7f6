// The family between the forward and the reverse divergence.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/log_mixture.hpp"
#include "rlcore/objective/distillation/forward_kl.hpp"
#include "rlcore/objective/distillation/reverse_kl.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// beta KL(P || M) + (1 - beta) KL(S || M) with M = (1 - beta) S + beta P (GKD, Agarwal et al. 2024). gradient by z:
/// (1 - beta) S_j ((log S_j - log M_j) - KL(S || M)). beta = 0 is the forward KL and beta = 1 the reverse one by
/// convention (GKD, Liger, SDPO's alpha): the formula itself is 0 there. The mixture stays in log space.
struct generalised_jsd {
  static constexpr logits_field reads = logits_field::teacher;
  static constexpr std::string_view name = "jsd";
  double beta = 0.5;

  /// Throws std::invalid_argument unless beta is in [0, 1].
  void check(extent_t) const {
    if (!(beta >= 0 && beta <= 1))
      throw std::invalid_argument("rlcore: generalised_jsd: beta is " + std::to_string(beta) + ", expected 0 ... 1");
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const entry<V>& e) const noexcept {
    if (beta == 0) return forward_kl{}.template operator()<Math, V>(e);
    if (beta == 1) return reverse_kl{}.template operator()<Math, V>(e);
    const V mixture =
        detail::log_add<Math, V>(e.logp + V(elementary::log1p(-beta)), e.teacher_logp + V(elementary::log(beta)));
    const V student = V(1 - beta) * times<Math>(e.p, e.logp - mixture);
    return {V(beta) * times<Math>(e.teacher_p, e.teacher_logp - mixture) + student, student};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
