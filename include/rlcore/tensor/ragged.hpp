// Rows of different length, one after the other: values and offsets, no padding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// Row i is values[offsets[i]] .. values[offsets[i + 1]]; offsets begin with 0 (the cu_seqlens of packed attention).
template <class T>
struct ragged {
  std::vector<T> values;
  std::vector<std::int32_t> offsets{0};

  std::size_t rows() const noexcept { return offsets.size() - 1; }
  bool empty() const noexcept { return rows() == 0; }
  std::span<const T> row(std::size_t i) const noexcept { return std::span(values).subspan(begin(i), length(i)); }
  std::span<T> row(std::size_t i) noexcept { return std::span(values).subspan(begin(i), length(i)); }
  std::size_t begin(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i]); }
  std::size_t length(std::size_t i) const noexcept { return static_cast<std::size_t>(offsets[i + 1] - offsets[i]); }

  void push_back(std::span<const T> row) {
    values.insert(values.end(), row.begin(), row.end());
    offsets.push_back(static_cast<std::int32_t>(values.size()));
  }
  void clear() noexcept {
    values.clear();
    offsets.resize(1);
  }
};

RLCORE_END
