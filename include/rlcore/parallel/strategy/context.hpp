// Context parallel ranks.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/context_kind.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

/// Ranks that have a part of every sequence each; they gather keys and values, pass them around a ring, or exchange
/// heads (Ulysses): context<2>, context<4, parallel::context_kind::ring>.
template <int Ranks, parallel::context_kind Kind = parallel::context_kind::gather_kv, class... Inside>
struct context : composed<context<Ranks, Kind, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::context: the number of ranks is 1 or more");
  using composed<context<Ranks, Kind, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.context, 1, Ranks);
    s.how_context = Kind;
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
