// The protocol of an aggregation: one weight per row.
//
//   struct sqrt_length {
//     double weight(row_info row, const global_counts& step) const noexcept {
//       return 1 / (static_cast<double>(step.sequences()) * std::sqrt(static_cast<double>(row.tokens)));
//     }
//   };
#pragma once

#include <concepts>
#include <cstdint>

#include "rlcore/objective/aggregation/global_counts.hpp"

RLCORE_BEGIN

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

RLCORE_END
