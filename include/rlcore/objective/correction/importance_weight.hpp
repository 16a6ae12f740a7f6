// Importance weights of one row: a treatment of the ratio at a level.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/objective/correction/detail/packs.hpp"
#include "rlcore/objective/correction/level.hpp"
#include "rlcore/objective/correction/treatment.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// What a weight and a gate see of a row: its live tokens under both policies.
struct log_ratio_row {
  std::span<const extent_t> position;
  std::span<const double> train, rollout;  ///< log-probs
  std::span<const double> log_ratio;       ///< log train - log rollout
};

namespace detail {
/// NaN stays NaN.
RLCORE_FN double limited(double x, double limit) noexcept { return x > limit ? limit : x < -limit ? -limit : x; }

template <class Treatment>
double low_of(const Treatment& t) noexcept {
  if constexpr (requires { t.low; })
    return t.low;
  else
    return 0.0;
}
template <class Treatment>
double high_of(const Treatment& t) noexcept {
  if constexpr (requires { t.high; })
    return t.high;
  else
    return std::numeric_limits<double>::infinity();
}
inline void check_bounds(std::string_view subject, double low, double high) {
  if (!(low >= 0 && high > 0 && low <= high))
    throw std::invalid_argument("rlcore: the bounds of " + std::string(subject) + " are " + std::to_string(low) +
                                " and " + std::to_string(high) + "; they must be positive and in order");
}
}  // namespace detail

/// w_t = treatment(exp(level(log train - log rollout))), the level's result held in +-log_limit. Weights are constants:
/// they carry no gradient.
///
///   importance_weight{token_level{}, truncated{2}}       token TIS
///   importance_weight{summed_over_sequence{}, truncated{2}}      sequence TIS: the product of the ratios
///   importance_weight{mean_over_sequence{}, truncated{2}}     their geometric mean
///   importance_weight{token_level{}, zero_outside{}}     IcePop, token MIS
///
/// The sequence level is unbiased only if every token of a row weighs the same in the loss (sequence_mean_token_sum,
/// token_mean over equal lengths) and nothing is truncated; with a treatment, bias is traded for variance.
template <class Level, class Treatment>
struct importance_weight {
  static constexpr bool per_sequence = Level::per_sequence;
  Level level;
  Treatment treatment;
  double log_limit = 20;  ///< infinity: none

  /// The ratio at level `l`, its log within +-`limit`, treated by `t`.
  constexpr importance_weight(Level l, Treatment t, double limit = 20) : level(l), treatment(t), log_limit(limit) {}

  double low() const noexcept { return detail::low_of(treatment); }
  double high() const noexcept { return detail::high_of(treatment); }
  void check() const { detail::check_bounds("the importance weight", low(), high()); }

  /// The weights before and after the treatment.
  RLCORE_FN void operator()(const log_ratio_row& row, std::span<double> raw, std::span<double> weight) const noexcept {
    std::copy(row.log_ratio.begin(), row.log_ratio.end(), raw.begin());
    level(row.position, raw);
    const pack<double> limit(log_limit);
    correction::transform_packs(raw, raw, raw, [&](pack<double> x, pack<double>) {
      return fast_math::exp(fast_math::clamp(x, -limit, limit));
    });
    for (std::size_t k = 0; k < raw.size(); ++k) weight[k] = treatment(raw[k]);
  }
};

/// No weights: nothing is written, only measured and rejected.
struct no_weight {};

RLCORE_ALGORITHM_END
RLCORE_END
