// Importance weights of rollouts (TIS, MIS, IcePop): their levels and treatments.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/simd/math.hpp"
#include "rlcore/simd/pack.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace correction {

/// f(pack of a, pack of b, which lanes exist, first token) for all packs of two equally long rows. The last, incomplete
/// pack is padded with 0.
template <class F>
RLCORE_FN void for_each_pack(std::span<const double> a, std::span<const double> b, F&& f) {
  using lanes = pack<double>;
  constexpr std::size_t width = lanes::lanes;
  const lanes one(1.0), zero(0.0);
  std::size_t k = 0;
  for (; k + width <= a.size(); k += width) f(load(a.data() + k), load(b.data() + k), one > zero, k);
  if (k == a.size()) return;
  double tail_a[width] = {}, tail_b[width] = {}, present[width] = {};
  std::copy(a.begin() + static_cast<std::ptrdiff_t>(k), a.end(), tail_a);
  std::copy(b.begin() + static_cast<std::ptrdiff_t>(k), b.end(), tail_b);
  std::fill(present, present + (a.size() - k), 1.0);
  f(load(tail_a), load(tail_b), load(present) > zero, k);
}

/// to[k] = f(a[k], b[k]), f of packs.
template <class F>
RLCORE_FN void transform_packs(std::span<const double> a, std::span<const double> b, std::span<double> to, F&& f) {
  using lanes = pack<double>;
  for_each_pack(a, b, [&](lanes x, lanes y, lane_mask<double>, std::size_t k) {
    const lanes result = f(x, y);
    if (k + lanes::lanes <= to.size()) {
      store(to.data() + k, result);
    } else {
      double tail[lanes::lanes];
      store(tail, result);
      std::copy(tail, tail + (to.size() - k), to.begin() + static_cast<std::ptrdiff_t>(k));
    }
  });
}

}  // namespace correction

/// Each token by itself.
struct token_level {
  static constexpr std::string_view name = "token";
  static constexpr bool per_sequence = false;
  RLCORE_FN void operator()(std::span<const extent_t>, std::span<double>) const noexcept {}
};

/// All live tokens of a row.
struct whole_sequence {
  static constexpr bool per_sequence = true;
  /// Where the sequence ends: its number of live tokens.
  static std::size_t end(std::span<const extent_t> position, std::size_t) noexcept { return position.size(); }
};
/// A run of live tokens without a gap: one turn of the policy between two masked tool outputs.
struct token_run {
  static constexpr bool per_sequence = false;
  /// Where the turn ends that begins with the live token `first`: the index behind its last live token.
  static std::size_t end(std::span<const extent_t> position, std::size_t first) noexcept {
    std::size_t last = first + 1;
    while (last < position.size() && position[last] == position[last - 1] + 1) ++last;
    return last;
  }
};

/// Reduction over a scope.
enum class level_reduction { sum, mean, largest };

/// Gives every token the sum, mean or largest of the values of its scope. Sums are taken in double, from left to right.
template <class Scope, level_reduction Reduction>
struct reduced_over {
  static constexpr bool per_sequence = Scope::per_sequence;
  static constexpr std::string_view name = [] {
    constexpr std::string_view names[2][3]{{"summed_over_turn", "mean_over_turn", "largest_in_turn"},
                                           {"summed_over_sequence", "mean_over_sequence", "largest_in_sequence"}};
    return names[per_sequence][static_cast<std::size_t>(Reduction)];
  }();

  /// In place, for one row.
  RLCORE_FN void operator()(std::span<const extent_t> position, std::span<double> x) const noexcept {
    for (std::size_t first = 0, last = 0; first < x.size(); first = last) {
      last = Scope::end(position, first);
      double reduced = Reduction == level_reduction::largest ? -std::numeric_limits<double>::infinity() : 0.0;
      for (std::size_t k = first; k < last; ++k) {
        if constexpr (Reduction == level_reduction::largest)
          reduced = x[k] > reduced || x[k] != x[k] ? x[k] : reduced;
        else
          reduced += x[k];
      }
      if constexpr (Reduction == level_reduction::mean) reduced /= static_cast<double>(last - first);
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(first), x.begin() + static_cast<std::ptrdiff_t>(last), reduced);
    }
  }
};

/// Of log-ratios: the log of the product of the ratios, the sequence's importance weight.
using summed_over_sequence = reduced_over<whole_sequence, level_reduction::sum>;
/// Of log-ratios: the log of the geometric mean of the ratios.
using mean_over_sequence = reduced_over<whole_sequence, level_reduction::mean>;
/// Of log-ratios: the largest of the sequence.
using largest_in_sequence = reduced_over<whole_sequence, level_reduction::largest>;
/// The same for the turn that a token belongs to.
using summed_over_turn = reduced_over<token_run, level_reduction::sum>;
/// Of log-ratios: the log of the geometric mean over the turn.
using mean_over_turn = reduced_over<token_run, level_reduction::mean>;
/// Of log-ratios: the largest of the turn.
using largest_in_turn = reduced_over<token_run, level_reduction::largest>;

/// w as it is: unbiased, of unbounded variance.
struct untreated {
  /// w.
  RLCORE_FN double operator()(double w) const noexcept { return w; }
};

/// min(w, high): truncated importance sampling (TIS, Yao et al. 2025; Ionides 2008). The default is verl's.
struct truncated {
  double high = 2;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high ? high : w; }
};

/// w clamped to [low, high]. The defaults are OpenRLHF's.
struct clamped {
  double low = 0.5, high = 5;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high ? high : w < low ? low : w; }
};

/// w inside of [low, high], 0 outside: masked importance sampling (MIS), IcePop (Ling team 2025). The token stays in
/// the denominator; a rejection takes it out. The defaults are OpenRLHF's.
struct zero_outside {
  double low = 0.5, high = 5;
  /// The treated weight. NaN stays NaN.
  RLCORE_FN double operator()(double w) const noexcept { return w > high || w < low ? 0.0 : w; }
};

/// Input of weights and gates: the live tokens of a row under both policies.
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

/// w_t = treatment(exp(level(log train - log rollout))), the level's result clamped to +-log_limit. Weights are
/// constants: they carry no gradient.
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

/// No weights: tokens are only measured and rejected.
struct no_weight {};

RLCORE_ALGORITHM_END
RLCORE_END
