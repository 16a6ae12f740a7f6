// Pointer into an array that is only partly in memory.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// Some consecutive elements of an array, from element `first` on, addressed by their numbers in the whole array: p + i
/// points to element i, for i >= first. A plain pointer converts to one with `first` 0.
template <class T>
class offset_pointer {
 public:
  constexpr offset_pointer() noexcept = default;
  /// `elements` points to the element that the whole array has at `first`.
  constexpr offset_pointer(T* elements, std::size_t first = 0) noexcept : elements_(elements), first_(first) {}

  /// A pointer to element `i` of the whole array; i >= first.
  constexpr T* operator+(std::size_t i) const noexcept { return elements_ + (i - first_); }
  explicit constexpr operator bool() const noexcept { return elements_ != nullptr; }

 private:
  T* elements_ = nullptr;
  std::size_t first_ = 0;
};

RLCORE_END
