// Block-wise squares of a gradient, for a norm that is independent of the sharding.
#pragma once

#include <cstddef>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"

RLCORE_BEGIN
namespace trainer {

/// The sums of squares of the blocks of rank `rank`, in double, in the order of its `shard`.
template <class Device>
std::vector<double> layout_squares(Device& device, const parallel::shard_layout& layout, std::size_t rank,
                                   const float* shard) {
  std::vector<double> squares;
  for (std::size_t u = 0; u < layout.units(); ++u)
    layout.for_runs(u, rank, [&](const parallel::value_range& run) {
      const std::size_t before = squares.size();
      squares.resize(before + layout.blocks(run.size()));
      device.run(
          op::block_sums_of_squares{.x = shard + layout.place(u, rank) + (run.first - layout.part(u, rank).first),
                                    .n = static_cast<extent_t>(run.size()),
                                    .block = static_cast<extent_t>(layout.block),
                                    .sums = squares.data() + before});
    });
  return squares;
}

}  // namespace trainer
RLCORE_END
