// Sums over the few entries of a support, in double.
#pragma once

#include <limits>

#include "rlcore/core/elementary.hpp"
#include "rlcore/objective/vocabulary/logits_piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// log sum_{k < size} e^(f(k)); -inf if there is none.
template <class F>
double log_sum_exp(extent_t size, const F& f) noexcept {
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (extent_t k = 0; k < size; ++k) most = f(k) > most ? f(k) : most;
  if (most == -std::numeric_limits<double>::infinity()) return most;
  for (extent_t k = 0; k < size; ++k) sum += elementary::exp(f(k) - most);
  return most + elementary::log(sum);
}

/// An entry-wise piece on one entry given by its log-probs.
template <class P>
term<double> term_of(const P& piece, double logp, double teacher_logp) noexcept {
  const entry<double> e{logp, teacher_logp, elementary::exp(logp), elementary::exp(teacher_logp)};
  if (e.p == 0 && e.teacher_p == 0) return {0, 0};
  return piece.template operator()<exact_math, double>(e);
}

/// Gradient of something whose slopes by the log-probs of the support's entries are slope(k) and by all others 0:
/// slope_j - p_j sum(slopes).
template <class T, class F>
void scatter_slopes(const logits_position<T>& x, const normalizer<T>& n, double total, const F& slope,
                    const logits_gradient<T>& g) noexcept {
  const pack<T> sum(static_cast<T>(total));
  for (extent_t j = 0; j < x.logits.size; j += g.lanes) g.write(j, -(fast_math::exp(n.logp(x.logits.load(j))) * sum));
  for (extent_t k = 0; k < x.support.size; ++k) g.add_at(static_cast<extent_t>(x.support[k]), slope(k));
}

}  // namespace detail
RLCORE_ALGORITHM_END
RLCORE_END
