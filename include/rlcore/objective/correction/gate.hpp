// Gates of rollout correction (rejection of off-policy tokens): a statistic, at a level, within bounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/correction/importance_weight.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/tensor/traits.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Bounds of pi_train / pi_rollout, which is the importance weight itself.
struct train_over_rollout {
  double low, high;
  /// [1 / factor, factor]
  static constexpr train_over_rollout around_one(double factor) noexcept { return {1 / factor, factor}; }
};
/// Bounds of pi_rollout / pi_train, the reciprocal of the importance weight: what verl's thresholds for k1 mean.
struct rollout_over_train {
  double low, high;
  /// [1 / factor, factor]
  static constexpr rollout_over_train around_one(double factor) noexcept { return {1 / factor, factor}; }
};

/// Keeps what has low <= level(log ratio) <= high. The type of the bounds names the direction of the ratio, since 0.5
/// ... 3 in one direction is 0.33 ... 2 in the reverse:
///
///   ratio_within<mean_over_sequence>(rollout_over_train{.low = 0.999, .high = 1.001})       verl's seq_mean_k1
///
/// Log-ratios of single tokens are clamped to +-log_limit first. NaN is outside of all bounds.
template <class Level>
class ratio_within {
 public:
  static constexpr std::string_view level_name = Level::name, statistic_name = "log_ratio";

  /// Bounds of the importance weight. Throws std::invalid_argument unless 0 <= low <= high and high > 0.
  explicit ratio_within(train_over_rollout bounds, double log_limit = 20)
      : low_(elementary::log(bounds.low)), high_(elementary::log(bounds.high)), limit_(log_limit) {
    detail::check_bounds("a ratio", bounds.low, bounds.high);
  }
  /// Bounds of its reciprocal. Throws std::invalid_argument unless 0 <= low <= high and high > 0.
  explicit ratio_within(rollout_over_train bounds, double log_limit = 20)
      : low_(-elementary::log(bounds.high)), high_(-elementary::log(bounds.low)), limit_(log_limit) {
    detail::check_bounds("a ratio", bounds.low, bounds.high);
  }

  /// Not to be used: two bare numbers do not say which ratio they bound.
  template <class Low, class High>
    requires(std::is_arithmetic_v<Low> && std::is_arithmetic_v<High>)
  ratio_within(Low, High) {
    static_assert(dependent_false<Low>,
                  "rlcore: say which ratio the bounds are of: train_over_rollout{low, high} is the importance weight, "
                  "rollout_over_train{low, high} its reciprocal");
  }

  /// Whether a token with this level of the log-ratio is kept.
  RLCORE_FN bool keeps(double statistic) const noexcept { return statistic >= low_ && statistic <= high_; }
  /// Writes the level of the log-ratio of every live token of the row.
  RLCORE_FN void operator()(const log_ratio_row& row, std::span<double> statistic) const noexcept {
    for (std::size_t k = 0; k < statistic.size(); ++k) statistic[k] = detail::limited(row.log_ratio[k], limit_);
    Level{}(row.position, statistic);
  }

 private:
  double low_, high_, limit_;
};

/// Keeps what has level(divergence of rollout and train) <= bound. Divergence is any piece that estimates KL(pi || ref)
/// from logp and ref_logp, here of the rollout policy from the trained one: k2 is u^2 / 2 and k3 is e^u - 1 - u with
/// u = log train - log rollout; or one of the sampled divergences below.
///
///   divergence_at_most<k3, mean_over_sequence>{.bound = 0.01}        verl's seq_mean_k3
template <class Divergence, class Level>
struct divergence_at_most {
  static constexpr std::string_view level_name = Level::name, statistic_name = Divergence::name;
  double bound;
  double log_limit = 20;  ///< of u
  [[no_unique_address]] Divergence divergence{};

  /// Whether a token with this level of the divergence is kept.
  RLCORE_FN bool keeps(double statistic) const noexcept { return statistic <= bound; }
  /// Writes the level of the divergence of every live token of the row.
  RLCORE_FN void operator()(const log_ratio_row& row, std::span<double> statistic) const noexcept {
    using lanes = pack<double>;
    const lanes limit(log_limit);
    correction::transform_packs(row.rollout, row.train, statistic, [&](lanes rollout, lanes train) {
      token<lanes> t{};
      t.logp = rollout;
      const lanes u = train - rollout, held = fast_math::clamp(u, -limit, limit);
      t.ref_logp = fast_math::select(held != u, rollout + held, train);
      return divergence.template operator()<fast_math, lanes>(t).value;
    });
    Level{}(row.position, statistic);
  }
};

/// KL of the sampled token against all others together: p log(p / q) + (1 - p) log((1 - p) / (1 - q)), p the rollout's
/// and q the trained probability, both clamped to [1e-6, 1 - 1e-6] (OpenRLHF "binary_kl").
struct sampled_binary_kl {
  static constexpr std::string_view name = "binary_kl";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V p = Math::clamp(Math::exp(t.logp), V(1e-6), V(1 - 1e-6));
    const V q = Math::clamp(Math::exp(t.ref_logp), V(1e-6), V(1 - 1e-6));
    return {p * Math::log(p / q) + (V(1) - p) * Math::log((V(1) - p) / (V(1) - q)), V(0)};
  }
};

/// |p - q| of the sampled token, clamped as above (OpenRLHF "tv").
struct sampled_total_variation {
  static constexpr std::string_view name = "tv";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V p = Math::clamp(Math::exp(t.logp), V(1e-6), V(1 - 1e-6));
    const V q = Math::clamp(Math::exp(t.ref_logp), V(1e-6), V(1 - 1e-6));
    return {Math::abs(p - q), V(0)};
  }
};

/// The weight, or 0 where any gate rejects. The token stays in the denominator.
///
///   zero_unless{importance_weight{token_level{}, untreated{}}, ratio_within<mean_over_sequence>(...)}
template <class Weight, class... Gates>
struct zero_unless {
  static constexpr bool per_sequence = Weight::per_sequence;
  Weight weight;
  std::tuple<Gates...> gates;

  /// The weight `w` behind the gates `g`.
  constexpr zero_unless(Weight w, Gates... g) : weight(w), gates(g...) {}

  double low() const noexcept { return weight.low(); }
  double high() const noexcept { return weight.high(); }
  void check() const { weight.check(); }
  /// The weights of the row before the treatment, and after treatment and gates.
  RLCORE_FN void operator()(const log_ratio_row& row, std::span<double> raw, std::span<double> w) const {
    weight(row, raw, w);
    scratch_vector<double> statistic(w.size());
    const auto close = [&](const auto& gate) {
      gate(row, statistic);
      for (std::size_t k = 0; k < w.size(); ++k)
        if (!gate.keeps(statistic[k])) w[k] = 0;
    };
    std::apply([&](const auto&... gate) { (close(gate), ...); }, gates);
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
