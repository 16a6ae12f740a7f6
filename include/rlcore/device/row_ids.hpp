// Row indices of an array in device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Which rows of an array a kernel writes: the k-th is number data[k] (device memory), one of the first `rows`; without
/// numbers it is row k. The uploader of the numbers knows how many rows they refer to, so devices do not read them
/// back.
struct row_ids {
  const std::int32_t* data = nullptr;
  extent_t rows = 0;

  constexpr row_ids() = default;
  /// Rows 0, 1, 2, ...
  constexpr row_ids(std::nullptr_t) noexcept {}
  /// The numbers at `ids`, each from 0 to n - 1. Operators may copy the n rows, so keep n small.
  constexpr row_ids(const std::int32_t* ids, extent_t n) noexcept : data(ids), rows(n) {}
};

RLCORE_END
