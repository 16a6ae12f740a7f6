// A std::vector whose functions belong to one instruction set.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// std::allocator under a name that has the instruction set in it.
template <class T>
struct scratch_allocator : std::allocator<T> {
  using value_type = T;
  template <class U>
  struct rebind {
    using other = scratch_allocator<U>;
  };
  scratch_allocator() = default;
  template <class U>
  scratch_allocator(const scratch_allocator<U>&) noexcept {}
};

/// For what an algorithm keeps between two passes. The members of std::vector<double> have one name in every object of
/// a program, and the linker keeps any of them: one compiled with -march=native may end up in code for older
/// processors.
template <class T>
using scratch_vector = std::vector<T, scratch_allocator<T>>;

RLCORE_ALGORITHM_END
RLCORE_END
