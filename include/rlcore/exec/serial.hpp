// Executor concept, and the serial executor: runs independent tasks in the calling thread. The caller adds up their
// results, in a fixed order.
#pragma once

#include <concepts>
#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN

/// e.for_each(count, f) calls f(i) once for every i in [0, count), in any order and possibly at the same time, and
/// returns when all calls have returned. f(i) may write only what belongs to i, so no result depends on the executor.
/// If calls throw, the exception of the smallest i that threw is passed on once no call is running; larger i may then
/// never have been called. Nothing is allocated. e.concurrency() is the largest number of calls that run at the same
/// time.
template <class E>
concept executor = requires(const E& e, void (*f)(std::size_t)) {
  e.for_each(std::size_t{}, f);
  { e.concurrency() } -> std::convertible_to<std::size_t>;
};

/// Runs f(0), f(1), ... in the calling thread. Stateless; the compiler inlines it.
struct serial {
  /// f(0), ..., f(count - 1) in this order.
  template <class F>
  RLCORE_FN constexpr void for_each(std::size_t count, F&& f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  RLCORE_FN static constexpr std::size_t concurrency() noexcept { return 1; }
};

RLCORE_END
