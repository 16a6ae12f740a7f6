// Tensor parallel ranks.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

/// Ranks that have a part of every matrix each (Megatron-LM): tensor<2>.
template <int Ranks, class... Inside>
struct tensor : composed<tensor<Ranks, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::tensor: the number of ranks is 1 or more");
  using composed<tensor<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.tensor, 1, Ranks);
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
