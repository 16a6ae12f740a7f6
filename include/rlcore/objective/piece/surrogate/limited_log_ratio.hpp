// Numerical limits of the log-ratio, as a choice and not as a part of every surrogate.
#pragma once

#include "rlcore/objective/piece/combine/passes_on.hpp"

RLCORE_BEGIN

/// limited_log_ratio{surrogate, low, high}: the surrogate sees clamp(logp - old_logp, low, high). verl and OpenRLHF
/// hold the log-ratio of a token within +-20, verl that of a sequence below 10 (low = -infinity; see
/// at_sequence_level); TRL and Liger have no limits.
///
/// Within the limits, ends included, nothing changes, not even a bit. Outside, the slope is 0, as autograd has it; a
/// surrogate that holds its ratio constant (cispo) keeps its slope.
template <class Surrogate>
struct limited_log_ratio : passes_on<Surrogate> {
  static_assert(!contains(Surrogate::reads, field::gathered),
                "rlcore: limit the ratio that the surrogate sees: at_sequence_level{limited_log_ratio{surrogate}}");
  static_assert(contains(Surrogate::reads, field::old_logp),
                "rlcore: limited_log_ratio holds a surrogate that reads old_logp; this one has no ratio to limit");
  double low = -20.0, high = 20.0;

  constexpr explicit limited_log_ratio(Surrogate s) : passes_on<Surrogate>(s) {}
  constexpr limited_log_ratio(Surrogate s, double low_, double high_)
      : passes_on<Surrogate>(s), low(low_), high(high_) {}

  template <class Math, class V>
  RLCORE_FN term<V, monitor_count<Surrogate>> operator()(const token<V>& t) const noexcept {
    const V log_ratio = t.logp - t.old_logp;
    const auto above = log_ratio > V(high);
    const auto below = log_ratio < V(low);
    token<V> shown = t;
    shown.old_logp = Math::select(above, t.logp - V(high), Math::select(below, t.logp - V(low), t.old_logp));
    auto result = this->piece.template operator()<Math, V>(shown);
    if constexpr (!stops_gradient_of<Surrogate>())
      result.slope = Math::select(Math::any(above, below), V(0), result.slope);
    return result;
  }
};

RLCORE_END
