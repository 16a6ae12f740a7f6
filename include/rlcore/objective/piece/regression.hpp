// Regression losses (squared residuals of log-ratios and rewards): A*-PO, SPPO, GVPO, trajectory balance (FlowRL).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/piece.hpp"
#include "rlcore/objective/piece/score.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// A row link: (beta score - eta target)^2. slope: 2 beta (beta score - eta target). Aggregated by sequence_mean.
///
/// On sum_of<log_ratio_to_reference>, beta = 1e-3 and target = reward - optimal value it is A*-PO (Brantley et al.
/// 2025; TRL A2PO). On sum_of<log_ratio_to_old> with target = reward it is SPPO as online regression (Wu et al. 2024;
/// verl's recipe, eta = 1). With target = advantage + the group's mean of beta score, computed beforehand, it is GVPO
/// for groups that are spread over micro-batches (see gvpo).
struct squared_residual {
  static constexpr field reads = field::logp | field::target;
  static constexpr std::string_view name = "regression";
  double beta = 1.0, eta = 1.0;

  constexpr void check_settings() const {
    check_setting("squared_residual", "beta", beta, setting::positive);
    check_setting("squared_residual", "eta", eta, setting::finite);
  }

  template <class Math, class V>
  RLCORE_FN term<V> operator()(const token<V>& t) const noexcept {
    const V residual = V(beta) * t.logp - V(eta) * t.target;
    return {residual * residual, V(2 * beta) * residual};
  }
};

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
