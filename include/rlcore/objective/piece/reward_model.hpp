// Reward model losses: Bradley-Terry with a margin, centring, ordinal, Plackett-Luce, regression.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/simd/exact_sum.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// -log sigmoid(chosen - rejected - margin) with the margin in field::target of the chosen row (Llama 2, Touvron et al.
/// 2023; TRL's and OpenRLHF's margin). slope by chosen: -sigmoid(-(chosen - rejected - margin)). With the same margin
/// for all pairs, bradley_terry{.beta = 1, .margin = ...}; without one, bradley_terry{.beta = 1}.
struct bradley_terry_with_margin {
  static constexpr field reads = field::target;
  static constexpr std::string_view name = "preference_with_margin";
  static constexpr auto monitors = pair_monitors;

  template <class Math, class V>
  RLCORE_FN pair_term<V, 3> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V z = chosen.logp - rejected.logp - chosen.target;
    const V slope = -Math::sigmoid(-z);
    return judged_pair<Math>(Math::softplus(-z), slope, -slope, 1.0, chosen, rejected);
  }
};

/// (chosen + rejected)^2, slope 2 (chosen + rejected) by either (Eisenstein et al. 2023). Added to the loss of a reward
/// model: mixed{bradley_terry{.beta = 1}, scaled{0.01, centering_link{}}} (TRL center_rewards_coefficient, off by
/// default, 0.01 recommended).
struct centering_link {
  static constexpr std::string_view name = "centering";

  template <class Math, class V>
  RLCORE_FN pair_term<V> operator()(const token<V>& chosen, const token<V>& rejected) const noexcept {
    const V level = chosen.logp + rejected.logp;
    return {level * level, V(2) * level, V(2) * level};
  }
};

/// -log P(class = field::target), P(class <= k) = sigmoid(threshold[k] - score): the proportional-odds model (McCullagh
/// 1980) for classes 0 ... Thresholds. A link of single rows. With a the threshold above the class and b the one below,
/// less the score: softplus(-a) + softplus(b) - log(1 - e^{b - a}); slope sigmoid(-a) - sigmoid(b). Thresholds ascend,
/// or std::invalid_argument is thrown; a target that is no class gives NaN.
template <std::size_t Thresholds>
struct ordinal_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "ordinal";
  std::array<double, Thresholds> threshold;

  /// Throws std::invalid_argument unless the thresholds ascend.
  constexpr explicit ordinal_link(const std::array<double, Thresholds>& ascending) : threshold(ascending) {
    for (std::size_t k = 0; k + 1 < Thresholds; ++k)
      if (!(threshold[k] < threshold[k + 1])) throw std::invalid_argument("rlcore: thresholds of ratings must ascend");
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    V above(std::numeric_limits<double>::quiet_NaN()), below = above;
    for (std::size_t k = 0; k <= Thresholds; ++k) {
      const auto here = row.target == V(static_cast<double>(k));
      above = Math::select(here, V(k < Thresholds ? threshold[k] : infinity), above);
      below = Math::select(here, V(k > 0 ? threshold[k - 1] : -infinity), below);
    }
    const V a = above - row.logp, b = below - row.logp;
    return {Math::softplus(-a) + Math::softplus(b) - log1m_exp<Math>(below - above),
            Math::sigmoid(-a) - Math::sigmoid(b)};
  }
};

/// One ranking, best first: sum over the first `places` places k of -log(e^{s_k} / sum_{j >= k} e^{s_j}); places 0
/// means all. slope[j] = sum over k <= j of e^{s_j} / sum_{i >= k} e^{s_i}, minus 1 at places that count; it is summed
/// from the probabilities of the remaining answers, so that a confident ranking keeps its digits. Two answers:
/// Bradley-Terry.
inline double plackett_luce(std::span<const double> scores, std::span<double> slope, std::size_t places = 0) noexcept {
  const std::size_t count = scores.size();
  for (double& s : slope) s = 0;
  if (count < 2) return 0;
  const std::size_t last = places == 0 || places > count - 1 ? count - 1 : places;
  double value = 0;
  for (std::size_t k = last; k-- > 0;) {
    double rest = scores[count - 1];  // log sum of e^s over the places after k
    for (std::size_t j = count - 1; j-- > k + 1;) rest = scores[j] + exact_math::softplus(rest - scores[j]);
    const double log_sum = scores[k] + exact_math::softplus(rest - scores[k]);
    value += exact_math::softplus(rest - scores[k]);
    for (std::size_t j = k + 1; j < count; ++j) {
      const double p = elementary::exp(scores[j] - log_sum);
      slope[j] += p;
      slope[k] -= p;
    }
  }
  return value;
}

/// The mean of plackett_luce over groups of `group_size` neighbouring rows, best first (Plackett 1975; InstructGPT's
/// ranking loss is the sum over pairs instead). A link of all rows of a step, on scores of a head or on log-ratios
/// (times beta: DPO for rankings). For groups of different sizes call plackett_luce for each. Throws
/// std::invalid_argument if rows do not divide into groups.
struct plackett_luce_link {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "plackett_luce";
  std::int64_t group_size = 2, places = 0;
  positive beta = 1.0;

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    if (group_size < 2 || places < 0 || rows.size() % static_cast<std::size_t>(group_size) != 0 ||
        slope.size() != rows.size())
      throw std::invalid_argument("rlcore: " + std::to_string(rows.size()) + " rows do not divide into rankings of " +
                                  std::to_string(group_size));
    const auto size = static_cast<std::size_t>(group_size);
    const auto groups = static_cast<double>(rows.size() / size);
    scratch_vector<double> scores(size);
    double total = 0;
    for (std::size_t first = 0; first < rows.size(); first += size) {
      for (std::size_t j = 0; j < size; ++j) scores[j] = beta * rows[first + j].logp;
      const auto group_slope = slope.subspan(first, size);
      total += plackett_luce(scores, group_slope, static_cast<std::size_t>(places)) / groups;
      for (double& s : group_slope) s *= beta / groups;
    }
    return total;
  }
};

/// (score - target)^2 with slope 2 (score - target), target = field::target. A link of single rows.
struct squared_error_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "squared_error";
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    const V error = row.logp - row.target;
    return {error * error, V(2) * error};
  }
};

/// error^2 / 2 where |error| <= width, width (|error| - width / 2) beyond (Huber 1964; PyTorch's huber_loss), error =
/// score - field::target. slope: the error, clamped to [-width, width].
struct huber_link {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "huber";
  double width = 1.0;
  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& row) const noexcept {
    const V error = row.logp - row.target, size = Math::abs(error);
    return {Math::select(size > V(width), V(width) * (size - V(0.5 * width)), V(0.5) * (error * error)),
            Math::clamp(error, V(-width), V(width))};
  }
};

/// (score - mean) / deviation. Measured once over a data set, applied at inference only (OpenRLHF normalize_reward).
struct reward_scale {
  double mean = 0, deviation = 1;

  /// The score in units of the deviation.
  double operator()(double score) const noexcept { return (score - mean) / deviation; }

  /// Mean and deviation (n - 1) of scores, the deviation at least 1e-8 (OpenRLHF). Independent of their order. Throws
  /// std::invalid_argument for fewer than two scores or one that is not finite.
  template <class Scores>
  static reward_scale of(const Scores& scores) {
    const std::size_t count = scores.size();
    if (count < 2)
      throw std::invalid_argument("rlcore: a deviation needs at least two scores, got " + std::to_string(count));
    exact_sum sum, squares;
    for (std::size_t i = 0; i < count; ++i) {
      if (!std::isfinite(scores[i]))
        throw std::invalid_argument("rlcore: score " + std::to_string(i) + " is not finite");
      sum.add(static_cast<double>(scores[i]));
    }
    const double mean = sum.value() / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
      const double d = static_cast<double>(scores[i]) - mean;
      squares.add(d * d);
    }
    return {mean, std::max(std::sqrt(squares.value() / static_cast<double>(count - 1)), 1e-8)};
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
