// Ranks that share the state of training.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

/// Data parallel ranks that share what each would hold twice (ZeRO, Rajbhandari et al. 2020): stage 1 cuts the
/// optimizer's state, 2 the gradient too, 3 the weights too (FSDP). sharded<3>, sharded<3, tensor<2>>,
/// sharded<2, data<4>, context<2>>.
template <int Stage, class... Inside>
struct sharded : composed<sharded<Stage, Inside...>> {
  static_assert(Stage >= 1 && Stage <= 3, "rlcore: strategy::sharded: the stage is 1, 2 or 3");
  using composed<sharded<Stage, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.zero, 0, Stage);
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
