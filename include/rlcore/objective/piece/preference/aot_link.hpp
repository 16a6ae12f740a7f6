// Alignment by distributions: the quantiles of the policy's preferences against those of the reference's.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string_view>

#include "rlcore/core/order.hpp"
#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/pair.hpp"
#include "rlcore/objective/piece/score/reference_log_prob.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace detail {

/// Positions in ascending order of x; equal numbers keep their order, NaN comes last.
inline scratch_vector<std::size_t> ascending(const scratch_vector<double>& x) {
  auto order = counted<std::size_t>(x.size());
  sort_stably(order, [&](std::size_t a, std::size_t b) { return std::isnan(x[b]) ? !std::isnan(x[a]) : x[a] < x[b]; });
  return order;
}

inline void check_pairs(std::size_t rows, std::size_t slopes) {
  if (rows % 2 != 0 || slopes != rows)
    throw std::invalid_argument("rlcore: an optimal-transport link needs rows in pairs and one slope per row");
}

}  // namespace detail

/// The mean over k of the logistic loss (with smoothing) of beta (p_k - q_k): p sorted gaps chosen - rejected of the
/// policy's summed log-probs, q sorted gaps of the reference's (AOT, Melnyk et al. 2024; TRL "aot").
///
/// A link of all rows of a step, pairs are rows 2k and 2k + 1, on sum_of<log_prob>; the reference's sums are gathered
/// besides. slope by chosen of the pair that has rank k: beta (smoothing sigmoid(z) - (1 - smoothing) sigmoid(-z)) /
/// pairs; minus that by rejected. Equal gaps keep the order of their rows, so the result does not depend on a sorting
/// algorithm. Throws std::invalid_argument for an odd number of rows.
struct aot_link {
  using gathers = sum_of<reference_log_prob>;
  static constexpr field reads = field::gathered;
  static constexpr std::string_view name = "aot";
  positive beta = 0.1;
  double smoothing = 0.0;

  constexpr void check_settings() const { check_setting("aot_link", "smoothing", smoothing, setting::below_1); }

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const std::size_t pairs = rows.size() / 2;
    scratch_vector<double> policy(pairs), reference(pairs);
    for (std::size_t k = 0; k < pairs; ++k) {
      policy[k] = rows[2 * k].logp - rows[2 * k + 1].logp;
      reference[k] = rows[2 * k].gathered - rows[2 * k + 1].gathered;
    }
    const auto of_policy = detail::ascending(policy), of_reference = detail::ascending(reference);
    double total = 0;
    for (std::size_t rank = 0; rank < pairs; ++rank) {
      const std::size_t k = of_policy[rank];
      const auto loss = smoothed_logistic<exact_math>(beta * (policy[k] - reference[of_reference[rank]]), smoothing);
      total += loss.value / static_cast<double>(pairs);
      slope[2 * k] = beta * loss.slope / static_cast<double>(pairs);
      slope[2 * k + 1] = -slope[2 * k];
    }
    return total;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
