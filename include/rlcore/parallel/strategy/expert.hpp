// Expert parallel ranks.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

/// Ranks that divide the experts of a model; they lie over the data x context parallel ones: expert<2>,
/// sharded<1, expert<4>>.
template <int Ranks, class... Inside>
struct expert : composed<expert<Ranks, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::expert: the number of ranks is 1 or more");
  using composed<expert<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.expert, 1, Ranks);
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
