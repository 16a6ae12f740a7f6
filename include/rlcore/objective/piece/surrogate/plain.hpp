// Surrogates without a clip: REINFORCE and the importance ratio; a limit on the log-ratio of any surrogate.
#pragma once

#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/combine/sum.hpp"
#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -A logp: REINFORCE (Williams 1992), GPG. The slope is -A.
struct policy_gradient {
  static constexpr field reads = field::logp | field::advantage;
  static constexpr std::string_view name = "policy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    return {-(t.advantage * t.logp), -t.advantage};
  }
};

/// -A r with r = exp(logp - old_logp), not clipped: the surrogate that ppo_clip bounds pessimistically, and the base of
/// KL-Cov. slope: -A r. At logp = old_logp it is the plain policy gradient.
struct importance_ratio {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "policy";

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V value = -(Math::exp(t.logp - t.old_logp) * t.advantage);
    return {value, value};
  }
};

/// limited_log_ratio{surrogate, low, high}: the surrogate sees clamp(logp - old_logp, low, high), also of an infinite
/// log-ratio. verl and OpenRLHF clamp the log-ratio of a token to +-20, verl that of a sequence below 10 (low =
/// -infinity; see sequence_is); TRL and Liger have no limits.
///
/// Within the limits the result is bit-identical; outside, the slope is 0. The limits are a closed interval: older
/// versions of PyTorch pass the gradient at a bound too, 2.15 gives 0. A surrogate that holds its ratio constant
/// (cispo) keeps its slope everywhere.
template <class Surrogate>
struct limited_log_ratio : forwarding_piece<Surrogate> {
  static_assert(!contains(Surrogate::reads, field::gathered),
                "rlcore: limit the ratio that the surrogate sees: sequence_is{limited_log_ratio{surrogate}}");
  static_assert(contains(Surrogate::reads, field::old_logp),
                "rlcore: limited_log_ratio holds a surrogate that reads old_logp; this one has no ratio to limit");
  static_assert(
      !contains(Surrogate::reads, field::ref_logp),
      "rlcore: limited_log_ratio shows a surrogate other log-probs where it holds their ratio, so one that also "
      "compares logp with ref_logp is not for it");
  static_assert(!reads_probabilities_of<Surrogate>(),
                "rlcore: this surrogate looks at probabilities too and has a limit of its own (DPPO); set its limit");
  double low = -20.0, high = 20.0;

  constexpr void check_settings() const {
    check_setting("limited_log_ratio", "low", low, setting::number);
    check_setting("limited_log_ratio", "high", high, setting::number);
    check_order("limited_log_ratio", "low", low, "high", high);
  }

  /// The surrogate `s` with the log-ratio within +-20.
  constexpr explicit limited_log_ratio(Surrogate s) : forwarding_piece<Surrogate>(s) {}
  /// The surrogate `s` with the log-ratio in [low_, high_].
  constexpr limited_log_ratio(Surrogate s, double low_, double high_)
      : forwarding_piece<Surrogate>(s), low(low_), high(high_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Surrogate>> operator()(const token<V>& t) const noexcept {
    const V log_ratio = t.logp - t.old_logp;
    const auto above = log_ratio > V(high);
    const auto below = log_ratio < V(low);
    token<V> shown = t;
    const auto held = Math::any(above, below);  // a difference that is infinite is held like any other
    shown.logp = Math::select(above, V(high), Math::select(below, V(low), t.logp));
    shown.old_logp = Math::select(held, V(0), t.old_logp);
    auto result = this->piece.template operator()<Math, V>(shown);
    if constexpr (stops_gradient_of<Surrogate>())  // logp itself is the factor that has the gradient
      result.value = Math::select(held, result.slope * t.logp, result.value);
    else
      result.slope = Math::select(held, V(0), result.slope);
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
