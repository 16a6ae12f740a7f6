// KTO on as many chosen as rejected answers, each side measured by the other.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "rlcore/objective/piece/preference/aot_link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The mean over all rows of sigmoid(-beta (c - k_r)) for chosen (even) and sigmoid(beta (r - k_c)) for rejected (odd)
/// rows, where k_c = max(0, mean c), k_r = max(0, mean r): the even-sampling KTO that OpenRLHF had until March 2026.
/// Unlike kto_link, its baselines are those of the other side's own answers and are not constants, so every row gets a
/// share of the slopes of the other side. A link of all rows of a step. For reproducing old runs; kto_link is the
/// paper's. Throws std::invalid_argument for an odd number of rows.
struct coupled_kto_link {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "coupled_kto";
  positive beta = 0.1;

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const auto count = static_cast<double>(rows.size());
    double mean[2] = {0, 0}, pull[2] = {0, 0}, total = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) mean[i % 2] += rows[i].logp / (count / 2);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double sign = i % 2 == 0 ? 1.0 : -1.0;
      const double baseline = mean[1 - i % 2] < 0 ? 0.0 : mean[1 - i % 2];
      const double z = sign * beta * (rows[i].logp - baseline);
      const double missed = exact_math::sigmoid(-z);
      total += missed / count;
      slope[i] = -sign * beta * missed * exact_math::sigmoid(z) / count;
      pull[1 - i % 2] -= slope[i];  // by the baseline, which is the other side's mean
    }
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (!(mean[i % 2] < 0)) slope[i] += pull[i % 2] / (count / 2);
    return total;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
