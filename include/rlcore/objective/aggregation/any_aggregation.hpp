// An aggregation whose type is forgotten.
#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "rlcore/core/settings.hpp"
#include "rlcore/objective/aggregation/aggregation.hpp"
#include "rlcore/objective/aggregation/token_mean.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
/// Holds any aggregation of up to one number, e.g. fixed_length{2048}: a loop compiled with it serves them all, for one
/// indirect call per row. Throws std::invalid_argument, as the aggregation does, for settings that make no sense.
class any_aggregation {
 public:
  constexpr any_aggregation() = default;
  /// Takes a copy of the aggregation.
  template <class A>
  requires(aggregation<A> && !std::is_same_v<A, any_aggregation>) any_aggregation(const A& a) {
    static_assert(sizeof(A) <= sizeof(double) && std::is_trivially_copyable_v<A>,
                  "rlcore: any_aggregation holds aggregations of up to one number");
    detail::check_part(a);
    std::memcpy(held_, &a, sizeof a);
    weight_ = [](const std::byte* held, row_info row, const global_counts& step) noexcept -> double {
      A copy;
      std::memcpy(static_cast<void*>(&copy), held, sizeof copy);
      return copy.weight(row, step);
    };
  }

  /// What each live token of the row weighs.
  double weight(row_info row, const global_counts& step) const noexcept { return weight_(held_, row, step); }

 private:
  alignas(double) std::byte held_[sizeof(double)]{};
  double (*weight_)(const std::byte*, row_info, const global_counts&) noexcept =
      [](const std::byte*, row_info row, const global_counts& step) noexcept -> double {
    return token_mean{}.weight(row, step);
  };
};

RLCORE_ALGORITHM_END
RLCORE_END
