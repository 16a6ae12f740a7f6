// The protocol of an aggregation: one weight per row.
//
//   struct sqrt_length {
//     double weight(row_info row, const global_counts& step) const noexcept {
//       return 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
//     }
//   };
//
// An aggregation whose weight is the same for rows of any length may say so, `static constexpr bool ignores_length =
// true`: the tokens are then counted in the pass that computes them.
#pragma once

#include <concepts>
#include <cstdint>

#include "rlcore/objective/aggregation/global_counts.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// What an aggregation knows about one row; never empty (empty rows have no weight).
struct row_info {
  std::int64_t tokens;     ///< live tokens of the row
  std::int64_t index = 0;  ///< of the row in this batch; only its parity means anything, for pairs
};

/// The loss is sum over rows of weight(row) times the sum over the row's live tokens of the pieces' values. A row of
/// weight 0 takes no part: it is not looked at and not counted.
template <class A>
concept aggregation = requires(const A a, row_info row, const global_counts& step) {
  { a.weight(row, step) }
  noexcept->std::convertible_to<double>;
};

template <class A>
inline constexpr bool ignores_length = requires {
  requires A::ignores_length;
};

RLCORE_ALGORITHM_END
RLCORE_END
