// The examples of docs/objectives.md, word for word between the marks (a test compares them).
#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include "rlcore/objective/aggregation.hpp"
#include "rlcore/objective/piece/piece.hpp"

// <docs>
namespace mine {
using rlcore::field, rlcore::token, rlcore::term, rlcore::flagged_term;

struct tempered_ratio {  // a new surrogate: -A ratio^kappa / kappa, flatter than the ratio for kappa < 1
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "tempered_ratio";
  static constexpr std::array<std::string_view, 1> monitors{"above_1"};
  double kappa = 0.5;
  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V x = t.logp - t.old_logp, slope = -(t.advantage * Math::exp(V(kappa) * x));
    return {slope * V(1 / kappa), slope, {Math::select(x > V(0), V(1), V(0))}};
  }
};

struct sqrt_length {  // a new aggregation: one weight per row, from global counts
  double weight(rlcore::row_info row, const rlcore::global_counts& step) const noexcept {
    return 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
  }
};
}  // namespace mine
// </docs>
