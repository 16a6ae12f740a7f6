// std::vector whose member functions are specific to one instruction set.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN

/// An allocator whose name contains the instruction set.
template <class T>
struct scratch_allocator {
  using value_type = T;
  scratch_allocator() = default;
  /// Allocators for other elements are equal too.
  template <class U>
  scratch_allocator(const scratch_allocator<U>&) noexcept {}

  /// Memory for n elements. Throws std::bad_array_new_length if their bytes cannot be counted, std::bad_alloc if there
  /// is none.
  T* allocate(std::size_t n) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new(n * sizeof(T)));
  }
  /// Frees what allocate() gave.
  void deallocate(T* p, std::size_t) noexcept { ::operator delete(p); }
  bool operator==(const scratch_allocator&) const = default;
};

/// Temporary storage between two passes of an algorithm. The members of std::vector<double> have the same name in every
/// object file, and the linker keeps an arbitrary copy: one compiled with -march=native may end up in code for older
/// processors.
template <class T>
using scratch_vector = std::vector<T, scratch_allocator<T>>;

RLCORE_ALGORITHM_END
RLCORE_END
