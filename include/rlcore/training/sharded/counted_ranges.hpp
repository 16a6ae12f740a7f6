// Gradient ranges that a tensor parallel rank adds to the global norm.
#pragma once

#include <span>
#include <vector>

#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"

RLCORE_BEGIN
namespace trainer {

/// Ranges of the flat parameters that only this rank holds, and on the first rank also those held by all.
inline std::vector<parallel::value_range> counted_ranges(std::span<const nn::parameter> parameters, int tensor_rank) {
  std::vector<parallel::value_range> ranges;
  for (const nn::parameter& p : parameters)
    if (p.split() || tensor_rank == 0) ranges.push_back({p.offset, p.offset + p.size});
  return ranges;
}

}  // namespace trainer
RLCORE_END
