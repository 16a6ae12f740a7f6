// Data parallel ranks.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

/// Ranks that share the rows of a step and hold the same weights: data<4>, data<2, tensor<2>>. Without a number, or
/// with 0, there are as many as other axes leave.
template <int Ranks = 0, class... Inside>
struct data : composed<data<Ranks, Inside...>> {
  static_assert(Ranks >= 0, "rlcore: strategy::data: the number of ranks is 0 (what other axes leave) or more");
  using composed<data<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.data, 0, Ranks);
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
