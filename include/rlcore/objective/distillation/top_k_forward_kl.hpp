// Forward KL on the entries that the teacher sent.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/distillation/detail/support.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// clamp(sum_{k in support} P_k (log P_k - log S_k), 0, value_most) with neither side renormalised: the teacher's top k
/// as a server returns them (verl "forward_kl_topk", whose defaults these are). Log-probs below logp_least are taken as
/// logp_least; where the student's was, and where the sum was clamped, there is no gradient. gradient: S_j P_K - P_j [j
/// in K], P_K the sum of P over the support. Infinite limits switch a clamp off (logp_least = -inf, value_most = inf);
/// the one at 0 is part of the definition, since the sum over a part of the vocabulary can be negative. Monitors: the
/// mass that the support has for the student and the teacher.
struct top_k_forward_kl {
  static constexpr logits_field reads = logits_field::support | logits_field::support_logp;
  static constexpr std::string_view name = "forward_kl";
  static constexpr std::array<std::string_view, 2> monitors{"student_mass", "teacher_mass"};
  double logp_least = -10.0, value_most = 10.0;

  template <class T>
  logits_term<2> operator()(const logits_position<T>& x, const logits_gradient<T>& g) const noexcept {
    const normalizer<T> n = normalize(x.logits);
    const auto s = [&](extent_t k) { return n.logp(x.logits[static_cast<extent_t>(x.support[k])]); };
    logits_term<2> out;
    double slopes = 0;
    for (extent_t k = 0; k < x.support.size; ++k) {
      const double student = s(k), teacher = static_cast<double>(x.support_logp[k]), raised = raise(teacher);
      out.monitor[0] += elementary::exp(student), out.monitor[1] += elementary::exp(teacher);
      if (const double p = elementary::exp(raised); p != 0) out.value += p * (raised - raise(student));
      slopes -= student < logp_least ? 0 : elementary::exp(raised);
    }
    const bool clamped = out.value < 0 || out.value > value_most;
    if (clamped) out.value = out.value < 0 ? 0 : value_most;
    if (g.wanted() && clamped) g.fill(T(0));
    if (g.wanted() && !clamped)
      detail::scatter_slopes(
          x, n, slopes,
          [&](extent_t k) {
            return s(k) < logp_least ? 0.0 : -elementary::exp(raise(static_cast<double>(x.support_logp[k])));
          },
          g);
    return out;
  }

 private:
  double raise(double logp) const noexcept { return logp < logp_least ? logp_least : logp; }
};

RLCORE_ALGORITHM_END
RLCORE_END
