// Further log-ratios that are gathered over a row: clipped, limited, corrected.
#pragma once

#include <string_view>

#include "rlcore/objective/piece/piece.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// x = logp - old_logp, held at `high` where A > 0 and at -low where A < 0: PPO's clip in log space (GMPO, Zhao et al.
/// 2025). The widths are of log-ratios. slope: 1, and 0 where it is held.
struct clipped_log_ratio {
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "clipped_log_ratio";
  double low = 0.4, high = 0.4;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    const auto above = Math::all(t.advantage > V(0), x > V(high));
    const auto below = Math::all(t.advantage < V(0), x < V(-low));
    return {Math::select(above, V(high), Math::select(below, V(-low), x)),
            Math::select(Math::any(above, below), V(0), V(1))};
  }
};

/// clamp(logp - old_logp, -limit, limit): what VESPO sums. slope: 1 within the limits, ends included, else 0.
struct limited_log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp;
  static constexpr std::string_view name = "limited_log_ratio_to_old";
  double limit = 20.0;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    return {Math::clamp(x, V(-limit), V(limit)), Math::select(Math::any(x > V(limit), x < V(-limit)), V(0), V(1))};
  }
};

/// The same plus log(weight), itself held within [lowest, limit]: the off-policy weight of a token as part of the ratio
/// (TRL's and Liger's VESPO under rollout correction). A weight of 0 counts as e^lowest = 1e-8.
struct corrected_log_ratio_to_old {
  static constexpr field reads = field::logp | field::old_logp | field::weight;
  static constexpr std::string_view name = "corrected_log_ratio_to_old";
  double limit = 20.0, lowest = -18.420680743952367;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    auto result = limited_log_ratio_to_old{limit}.template operator()<Math, V>(t);
    result.value = result.value + Math::clamp(Math::log(t.weight), V(lowest), V(limit));
    return result;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
