// The examples of docs/objectives.md, word for word between the marks (a test compares them).
#pragma once

#include <array>
#include <cmath>
#include <string_view>

#include "rlcore/objective/aggregation/aggregation.hpp"
#include "rlcore/objective/piece/piece.hpp"

// <docs>
namespace mine {
using rlcore::field, rlcore::token, rlcore::term, rlcore::flagged_term;

struct cispo {  // a new surrogate: -stop_gradient(min(ratio, bound)) A logp
  static constexpr field reads = field::logp | field::old_logp | field::advantage;
  static constexpr std::string_view name = "cispo";
  static constexpr std::array<std::string_view, 1> monitors{"bounded"};
  static constexpr bool stops_gradient = true;
  double bound = 2;
  template <class Math, class V>
  RLCORE_FN flagged_term<V> operator()(const token<V>& t) const noexcept {
    const V ratio = Math::exp(t.logp - t.old_logp), w = Math::min(ratio, V(bound));
    return {-(w * t.advantage * t.logp), -(w * t.advantage), {Math::select(ratio > w, V(1), V(0))}};
  }
};

struct sqrt_length {  // a new aggregation: one weight per row, from global counts
  double weight(rlcore::row_info row, const rlcore::global_counts& step) const noexcept {
    return 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
  }
};
}  // namespace mine
// </docs>
