// Rewards limited to a range.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/tensor/span.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// min(max(R, low), high) in place; NaN (an unscored row) stays. Where it stands relative to an estimator matters:
/// TRL's RLOO clips before the baseline, OpenRLHF after the group normalisation, with a default of (-10, 10). See
/// in_order.
struct reward_clip {
  double low = -10, high = 10;

  constexpr void check_settings() const {
    check_setting("reward_clip", "low", low, setting::number);
    check_setting("reward_clip", "high", high, setting::number);
    check_order("reward_clip", "low", low, "high", high);
  }

  /// Changes `rewards` in place. Throws std::invalid_argument if the range is empty or a bound is NaN.
  template <class Rewards>
  void operator()(Rewards&& rewards) const {
    if (!(low <= high))
      throw std::invalid_argument("rlcore: reward_clip from " + std::to_string(low) + " to " + std::to_string(high));
    const auto v = as_view<1>(rewards);
    using number = typename std::remove_cv_t<decltype(v)>::value_type;
    for (extent_t i = 0; i < v.shape[0]; ++i)
      if (v(i) < static_cast<number>(low))
        v(i) = static_cast<number>(low);
      else if (v(i) > static_cast<number>(high))
        v(i) = static_cast<number>(high);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
