// Alignment by distributions, of the chosen and of the rejected answers apart.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "rlcore/core/scratch_vector.hpp"
#include "rlcore/core/settings.hpp"
#include "rlcore/objective/piece/preference/aot_link.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// The mean over k of the logistic loss (with smoothing) of beta (c_k - r_k): c, r the sorted scores of chosen (even)
/// and rejected (odd) rows (AOT, Melnyk et al. 2024; TRL "aot_unpaired"). A link of all rows of a step on
/// sum_of<log_ratio_to_reference>. The chosen row and the rejected row of rank k get opposite slopes. Equal scores keep
/// the order of their rows. Throws std::invalid_argument for an odd number of rows.
struct aot_unpaired_link {
  static constexpr field reads = field::none;
  static constexpr std::string_view name = "aot_unpaired";
  positive beta = 0.1;
  double smoothing = 0.0;

  constexpr void check_settings() const {
    check_setting("aot_unpaired_link", "smoothing", smoothing, setting::below_1);
  }

  double operator()(std::span<const token<double>> rows, std::span<double> slope) const {
    detail::check_pairs(rows.size(), slope.size());
    const std::size_t pairs = rows.size() / 2;
    scratch_vector<double> chosen(pairs), rejected(pairs);
    for (std::size_t k = 0; k < pairs; ++k) chosen[k] = rows[2 * k].logp, rejected[k] = rows[2 * k + 1].logp;
    const auto of_chosen = detail::ascending(chosen), of_rejected = detail::ascending(rejected);
    double total = 0;
    for (std::size_t rank = 0; rank < pairs; ++rank) {
      const std::size_t c = of_chosen[rank], r = of_rejected[rank];
      const auto loss = smoothed_logistic<exact_math>(beta * (chosen[c] - rejected[r]), smoothing);
      total += loss.value / static_cast<double>(pairs);
      slope[2 * c] = beta * loss.slope / static_cast<double>(pairs);
      slope[2 * r + 1] = -slope[2 * c];
    }
    return total;
  }
};

RLCORE_ALGORITHM_END
RLCORE_END
