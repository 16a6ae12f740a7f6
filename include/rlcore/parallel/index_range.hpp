// Half-open index range.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// The range [first, last) of rows, layers or experts.
struct index_range {
  std::size_t first = 0, last = 0;

  constexpr std::size_t size() const noexcept { return last - first; }
  friend bool operator==(const index_range&, const index_range&) = default;
};

}  // namespace parallel
RLCORE_END
