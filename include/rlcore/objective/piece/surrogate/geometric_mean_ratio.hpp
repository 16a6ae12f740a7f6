// The geometric mean of clipped ratios.
#pragma once

#include <array>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/combine/passes_on.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score/gather.hpp"
#include "rlcore/objective/piece/surrogate/log_ratio_scores.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -A exp(mean over the row of the clipped log-ratio), once per sequence: GMPO (Zhao et al. 2025; verl "geo_mean", TRL
/// GMPO). Tokens are clipped one by one, in log space: `low` and `high` are widths of logp - old_logp, 0.4 in the paper
/// and in TRL; verl takes them from clip_ratio. One advantage per row: the loop refuses one per token, for which the
/// slope would have to be that of the row's mean advantage.
///
/// slope: -A exp(mean), and 0 for tokens that are clipped. Aggregated by sequence_mean_token_mean, whose 1 / n is that
/// of the mean. Monitors: share of tokens clipped above (A > 0) and below (A < 0).
struct geometric_mean_ratio {
  using gathers = mean_of<clipped_log_ratio>;
  static constexpr field reads = field::logp | field::old_logp | field::advantage | field::gathered;
  static constexpr std::string_view name = "policy";
  static constexpr std::array<std::string_view, 2> monitors{"clipfrac", "clipfrac_lower"};
  static constexpr bool per_sequence = true;
  static constexpr field row_fields = field::advantage;
  double low = 0.4, high = 0.4;

  constexpr void check_settings() const {
    check_setting("geometric_mean_ratio", "low", low, setting::width);
    check_setting("geometric_mean_ratio", "high", high, setting::width);
  }

  /// What is gathered, with this piece's widths.
  constexpr clipped_log_ratio score() const noexcept { return {low, high}; }

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp;
    const auto above = Math::all(t.advantage > V(0), x > V(high));
    const auto below = Math::all(t.advantage < V(0), x < V(-low));
    const V value = -(Math::exp(t.gathered) * t.advantage);
    return {value,
            Math::select(Math::any(above, below), V(0), value),
            {Math::select(above, V(1), V(0)), Math::select(below, V(1), V(0))}};
  }
};

/// The same with verl's monitors: shares of tokens outside of the widths, on either side, with A > 0 and with A < 0.
struct counts_outside : passes_on<geometric_mean_ratio> {
  constexpr counts_outside() = default;
  /// Around `p`.
  constexpr explicit counts_outside(geometric_mean_ratio p) : passes_on(p) {}

  template <class Math, class V>
  RLCORE_FN term<V, 2> operator()(const token<V>& t) const noexcept {
    const auto own = this->piece.template operator()<Math, V>(t);
    const V x = t.logp - t.old_logp;
    const auto outside = Math::any(x > V(this->piece.high), x < V(-this->piece.low));
    return {own.value,
            own.slope,
            {Math::select(Math::all(t.advantage > V(0), outside), V(1), V(0)),
             Math::select(Math::all(t.advantage < V(0), outside), V(1), V(0))}};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
