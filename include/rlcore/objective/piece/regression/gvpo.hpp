// Regression of score differences within a group on advantage differences.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/field.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// A batch link: mean over groups of sum over a group's rows of 1/2 ((beta s - mean of beta s) - A)^2 / (G - 1): GVPO
/// (Zhang et al. 2025; verl's recipe, which sums over groups). On sum_of<log_ratio_to_old>, with centred advantages,
/// one per row; groups are `group_size` neighbouring rows. Aggregated by batch_total.
///
/// slope by row i: beta ((beta s_i - mean) - A_i) / (G - 1) / groups. That is the derivative for any A that sums to 0
/// over the group, since the residuals then do too and the mean may be held constant. So groups that are spread over
/// micro-batches or ranks can be done with the row link scaled{0.5 / (G - 1), squared_residual{beta}} and
/// target = A + mean of beta s, from a first pass.
struct gvpo {
  static constexpr field reads = field::logp | field::advantage;
  static constexpr std::string_view name = "regression";
  double beta = 0.1;
  std::size_t group_size = 0;

  constexpr void check_settings() const { check_setting("gvpo", "beta", beta, setting::positive); }

  /// Throws std::invalid_argument unless the rows are whole groups of at least two.
  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    if (group_size < 2 || rows.size() % group_size != 0)
      throw std::invalid_argument("rlcore: gvpo compares the rows of a group: group_size is " +
                                  std::to_string(group_size) + " and the batch has " + std::to_string(rows.size()) +
                                  " rows; expected a group_size of at least 2 that divides the rows");
    const double groups = static_cast<double>(rows.size() / group_size);
    const double scale = 1 / (static_cast<double>(group_size - 1) * groups);
    double value = 0;
    for (std::size_t first = 0; first < rows.size(); first += group_size) {
      double mean = 0;
      for (std::size_t i = first; i < first + group_size; ++i) mean += beta * rows[i].logp;
      mean /= static_cast<double>(group_size);
      for (std::size_t i = first; i < first + group_size; ++i) {
        const double residual = (beta * rows[i].logp - mean) - rows[i].advantage;
        value += 0.5 * scale * residual * residual;
        slope[i] = beta * scale * residual;
      }
    }
    return value;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
