// Rankings of more than two answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/elementary.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/objective/piece/preference/link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// One ranking, best first: sum over the first `places` places k of -log(e^{s_k} / sum_{j >= k} e^{s_j}); places 0
/// means all. slope[j] = sum over k <= j of e^{s_j} / sum_{i >= k} e^{s_i}, minus 1 at places that count; it is summed
/// from the probabilities of the others, so that a confident ranking keeps its digits. Two answers: Bradley-Terry.
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

RLCORE_ALGORITHM_END
RLCORE_END
