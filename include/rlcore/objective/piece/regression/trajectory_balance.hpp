// Flow matching of a sequence's probability to its reward.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"
#include "rlcore/objective/piece/score/scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A row link: w delta^2 with delta = log Z + score - beta target and the constant w = min(e^(sum of logp - old_logp),
/// bound). On mean_of<log_ratio_to_reference>, target = reward, it is FlowRL (Zhu et al. 2025; verl's recipe); the
/// plain trajectory balance of Malkin et al. (2022) has w = 1. log Z is field::value, one per row. Aggregated by
/// sequence_mean.
///
/// slope: 2 w delta by the score, and the same by log Z: dL / d(log Z of row i) is the sum of the row's dL / dlogp.
/// Monitors: w and log Z.
struct trajectory_balance {
  using gathers = sum_of<log_ratio_to_old>;
  static constexpr field reads = field::logp | field::target | field::value | field::gathered;
  static constexpr std::string_view name = "flow";
  static constexpr std::array<std::string_view, 2> monitors{"importance_weight", "log_z"};
  double beta = 15.0, bound = 10.0;

  constexpr void check_settings() const {
    check_setting("trajectory_balance", "beta", beta, setting::positive);
    check_setting("trajectory_balance", "bound", bound, setting::bound);
  }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V delta = t.value + t.logp - V(beta) * t.target;
    const V w = Math::min(Math::exp(t.gathered), V(bound));
    return {w * delta * delta, V(2) * w * delta, {w, t.value}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
