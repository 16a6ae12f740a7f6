// A divergence corrected for tokens that an older policy sampled.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// r v with r = exp(logp - old_logp) and v the value of another estimator. slope: r (v + v'), the product rule, since r
/// depends on logp as well. With d = logp - ref_logp:
///
///   ratio_corrected{k1{}}   value r d              slope r (d + 1)      (a loss with a signal, unlike k1 alone)
///   ratio_corrected{k2{}}   value r d^2 / 2        slope r (d + d^2 / 2)
///   ratio_corrected{k3{}}   value r (e^-d - 1 + d) slope r d            TRL's use_bias_correction_kl
///
/// Averaged over tokens of the old policy, the values are those of the estimator under the current policy, and the
/// slopes of k1 and k3 are the gradient of KL(policy || reference) (DeepSeek-V3.2 2025). The ratio is not limited.
/// Where logp falls without end, r takes any power of d with it: values and slopes go to 0, and the value of k3 to
/// exp(ref_logp - old_logp).
template <class Divergence>
struct ratio_corrected {
  static constexpr field reads = Divergence::reads | field::old_logp;
  static constexpr std::string_view name = Divergence::name;
  static_assert(wrt_of<Divergence>() == field::logp && monitor_count<Divergence> == 0,
                "rlcore: ratio_corrected holds a divergence like k1, k2 or k3: a slope by logp and no monitors");
  [[no_unique_address]] Divergence divergence;

  /// The divergence `d` times the ratio.
  constexpr explicit ratio_corrected(Divergence d) : divergence(d) {}

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp);
    const term<V> v = divergence.template operator()<Math, V>(t);
    const auto gone = ratio == V(0);
    // value + slope of k3 is d, but as a sum it would lose all digits where e^-d is large
    if constexpr (requires { divergence.template value_plus_slope<Math, V>(t); })
      return {divergence.template value_times_ratio<Math, V>(t, ratio),
              ratio * finite_if<Math>(gone, divergence.template value_plus_slope<Math, V>(t))};
    else
      return {ratio * finite_if<Math>(gone, v.value),
              ratio * (finite_if<Math>(gone, v.value) + finite_if<Math>(gone, v.slope))};
  }

 private:
  /// x as a factor of 0: never infinite, and NaN if x is.
  template <class Math, class M, class V>
  RLCORE_FN static V finite_if(const M& condition, const V& x) noexcept {
    return Math::select(condition, Math::clamp(x, V(-1e30), V(1e30)), x);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
