// Serial executor: a loop in the calling thread.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN

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
