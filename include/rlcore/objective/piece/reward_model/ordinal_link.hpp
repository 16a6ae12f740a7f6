// Ratings whose steps need not be of one size: one to five stars.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "rlcore/objective/piece/preference/link.hpp"
#include "rlcore/objective/piece/preference/log1m_exp.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
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

RLCORE_ALGORITHM_END
RLCORE_END
