// Ragged (packed) rows: values and offsets (cu_seqlens), no padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// Packed sequences. Row i is values[offsets[i]] .. values[offsets[i + 1]]; offsets begin with 0 (the cu_seqlens of
/// packed attention). Both members may be read freely; write them together or through the functions.
template <class T>
struct ragged {
  std::vector<T> values;
  std::vector<std::int32_t> offsets{0};

  std::size_t rows() const noexcept { return offsets.size() - 1; }
  /// Number of values in all rows together.
  std::size_t size() const noexcept { return values.size(); }
  /// True without rows; a ragged of rows without values is not empty.
  bool empty() const noexcept { return rows() == 0; }
  /// Row i; i is not checked.
  std::span<const T> row(std::size_t i) const noexcept { return std::span(values).subspan(begin(i), length(i)); }
  /// Row i, to be written; i is not checked.
  std::span<T> row(std::size_t i) noexcept { return std::span(values).subspan(begin(i), length(i)); }
  /// Where row i begins in `values`.
  std::size_t begin(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i]); }
  /// Number of values of row i.
  std::size_t length(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i + 1] - offsets[i]); }

  /// Appends a row, which must not lie in `values`. Throws std::length_error if the values would no longer be countable
  /// in 32 bits.
  void push_back(std::span<const T> row) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max());
    if (row.size() > most - values.size())
      throw std::length_error("rlcore: ragged: a row of " + std::to_string(row.size()) + " values after " +
                              std::to_string(values.size()) + ": expected at most " + std::to_string(most) + " in all");
    // Room for the offset first: if memory runs out, nothing has changed.
    if (offsets.size() == offsets.capacity()) offsets.reserve(2 * offsets.size());
    values.insert(values.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int32_t>(values.size()));
  }
  /// Reserves memory for this many rows and values.
  void reserve(std::size_t rows, std::size_t values_in_all) {
    offsets.reserve(rows + 1);
    values.reserve(values_in_all);
  }
  /// Removes all rows and keeps the memory.
  void clear() noexcept {
    values.clear();
    offsets.resize(1);
  }
};

RLCORE_END
