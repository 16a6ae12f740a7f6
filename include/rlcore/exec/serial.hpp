// The executor that is a loop.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

struct serial {
  template <class F>
  void for_each(std::size_t count, F&& f) const {
    for (std::size_t i = 0; i < count; ++i) f(i);
  }
  static constexpr std::size_t concurrency() noexcept { return 1; }
};

RLCORE_END
