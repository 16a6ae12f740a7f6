// A divergence weighted by a ratio that carries no gradient.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// stop_gradient(min(r, bound)) v with r = exp(logp - old_logp): value w v, slope w v'. The slope of
/// ratio_weighted{k2{}} is w d, the gradient of KL(policy || reference) from an older policy's tokens with a bounded
/// weight. straight_through{value_clamped{k3{}}, ratio_weighted{k2{}}} is OpenRLHF's kl.unbiased_gradient, whose bound
/// this is.
template <class Divergence>
struct ratio_weighted : passes_on<Divergence> {
  static constexpr field reads = Divergence::reads | field::old_logp;
  static constexpr bool stops_gradient = true;
  double bound = 10.0;

  /// The divergence `d` times the ratio, which counts as `bound_` at most.
  constexpr explicit ratio_weighted(Divergence d, double bound_ = 10.0) : passes_on<Divergence>(d), bound(bound_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Divergence>> operator()(const token<V>& t) const noexcept {
    const V w = Math::min(Math::exp(t.logp - t.old_logp), V(bound));
    auto result = this->piece.template operator()<Math, V>(t);
    result.value = w * result.value;
    result.slope = w * result.slope;
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
