// A divergence weighted by a ratio that carries no gradient.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN

/// stop_gradient(min(r, bound)) v with r = exp(logp - old_logp): value w v, slope w v'. The slope of
/// ratio_weighted{k2{}} is w d, the gradient of KL(policy || reference) from an older policy's tokens with a bounded
/// weight. straight_through{value_clamped{k3{}}, ratio_weighted{k2{}}} is OpenRLHF's kl.unbiased_gradient, whose bound
/// this is.
template <class Divergence>
struct ratio_weighted {
  static constexpr field reads = Divergence::reads | field::old_logp;
  static constexpr field wrt = wrt_of<Divergence>();
  static constexpr std::string_view name = Divergence::name;
  static constexpr auto monitors = monitors_of<Divergence>();
  static constexpr bool stops_gradient = true;
  static constexpr bool zero_mean_gradient = requires { requires Divergence::zero_mean_gradient; };
  [[no_unique_address]] Divergence divergence;
  double bound = 10.0;

  constexpr explicit ratio_weighted(Divergence d, double bound_ = 10.0) : divergence(d), bound(bound_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Divergence>> operator()(const token<V>& t) const noexcept {
    const V w = Math::min(Math::exp(t.logp - t.old_logp), V(bound));
    auto result = divergence.template operator()<Math, V>(t);
    result.value = w * result.value;
    result.slope = w * result.slope;
    return result;
  }
};

RLCORE_END
