// A binary classifier whose logit is the implicit reward.
#pragma once

#include <string_view>

#include "rlcore/core/order.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/kto_link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// softplus(-s (beta u - shift)), s = 1 for a desirable row (field::target 1) and -1 for an undesirable one (0): BCO
/// (Jung et al. 2024). A link of single rows for sum_of<log_ratio_to_reference>. `shift` is the running mean of all
/// rewards beta u, a constant, and has no default: see running_mean. slope: -s beta sigmoid(-s (beta u - shift)).
/// weighted{bco_link{...}} with udm_weight in field::weight matches the prompts of the two classes.
struct bco_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "bco";
  static constexpr auto monitors = kto_link::monitors;
  double shift;
  positive beta;

  constexpr void check_settings() const { check_setting("bco_link", "shift", shift, setting::finite); }

  /// The running mean of the rewards and the scale of the log-ratio.
  constexpr explicit bco_link(double shift_, positive beta_ = 0.1) noexcept : shift(shift_), beta(beta_) {}

  template <class Math, class V>
  RLCORE_FN term<V, 3> operator()(const token<V>& row) const noexcept {
    const V sign = label_sign<Math>(row.target), reward = V(beta) * row.logp;
    const V z = sign * (reward - V(shift)), desirable = Math::select(sign > V(0), V(1), V(0));
    return {Math::softplus(-z),
            V(-beta) * sign * Math::sigmoid(-z),
            {desirable, desirable * reward, (V(1) - desirable) * reward}};
  }
};

/// What an undesirable row weighs if a classifier gives its prompt the probability p of being a desirable row's: the
/// odds p / (1 - p + 1e-8), kept within [lowest, highest]. Desirable rows weigh 1. The defaults are TRL's.
inline double udm_weight(double p, double lowest = 0.5, double highest = 10.0) noexcept {
  return detail::between(p / (1 - p + 1e-8), lowest, highest);
}

RLCORE_ALGORITHM_END
RLCORE_END
