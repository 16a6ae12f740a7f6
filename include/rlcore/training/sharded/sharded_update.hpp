// Sharded optimizer step: sums gradients over ranks, computes the norm, gathers the updated weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/training/sharded/block_squares.hpp"
#include "rlcore/training/sharded/shard_gather.hpp"

RLCORE_BEGIN
namespace trainer {

/// Operates on a flat vector of parameters. With ZeRO 1 or more this rank's optimizer holds only its shard.
template <class Device>
class sharded_update {
 public:
  /// `counted` holds the ranges that this rank adds to the norm when ranks share tensors (counted_ranges.hpp).
  /// `restarts` lists the positions where the blocks of a unit restart.
  sharded_update(Device& device, parallel::world& w, std::vector<std::size_t> unit_ends,
                 std::vector<parallel::value_range> counted = {}, std::span<const std::size_t> restarts = {})
      : device_(&device),
        world_(&w),
        sums_(device, w, std::move(unit_ends), restarts),
        gather_(device, w.shards(), sums_.layout()),
        counted_(std::move(counted)),
        pieces_(pieces_of(layout(), rank())) {}

  parallel::gradient_sums<Device>& sums() noexcept { return sums_; }
  const parallel::shard_layout& layout() const noexcept { return sums_.layout(); }
  std::size_t rank() const { return sums_.shard_rank(); }
  /// The pieces of this rank: values of its shard, and where they lie in the vector.
  std::span<const optim::adamw_piece> pieces() const noexcept { return pieces_; }
  std::size_t shard_size() const { return sums_.shard_size(); }

  /// The norm of the whole gradient; this rank holds `shard`. With tp_reduce_chunks the norm is rounded to float,
  /// because tensor parallel ranks sum their squares in a different order than one rank.
  double norm(const float* shard, expert_squares* experts = nullptr) {
    const double exact = std::sqrt(sum_of_squares(shard, experts));
    return world_->settings().tp_reduce_chunks > 0 ? static_cast<double>(static_cast<float>(exact)) : exact;
  }
  /// The sum of the squares of the whole gradient; this rank holds `shard`. Blocks are summed in double and added in
  /// block order, independent of their owner. `experts` adds the squares of distributed experts.
  double sum_of_squares(const float* shard, expert_squares* experts = nullptr) {
    if (world_->tensor().size() > 1) return sum_of_squares_of_parts(shard, experts);
    const std::vector<double> sums = gathered_squares(*device_, layout(), rank(), shard, world_->shards());
    squares_in_order squares(layout(), sums);
    double total = 0;
    for (std::size_t u = 0; u < layout().units(); ++u) {
      squares.add_unit(u, total);
      if (experts) experts->add_unit(u, total);
    }
    return total;
  }

  /// Gathers all shards into `weights`, which already holds this rank's shard in its places.
  void gather(float* weights) { gather_.every_unit(weights); }

 private:
  /// Sums the counted pieces of this rank in double, then the shards in order, then the tensor parallel ranks in order.
  double sum_of_squares_of_parts(const float* shard, expert_squares* experts) {
    double sum = 0;
    for (const optim::adamw_piece& piece : pieces_)
      for (const parallel::value_range& r : counted_) {
        const std::size_t first = std::max(r.first, piece.weights),
                          last = std::min(r.last, piece.weights + (piece.last - piece.first));
        if (first < last)
          sum += device_->run(op::sum_of_squares{.x = shard + piece.first + (first - piece.weights),
                                                 .n = static_cast<extent_t>(last - first)});
      }
    for (parallel::any_communicator* group : {&world_->shards(), &world_->tensor()}) {
      if (group == &world_->shards() && layout().ranks() == 1) continue;
      std::vector<double> gathered(static_cast<std::size_t>(group->size()));
      group->all_gather(std::span<const double>(&sum, 1), std::span<double>(gathered));
      sum = std::accumulate(gathered.begin(), gathered.end(), 0.0);
    }
    if (experts) experts->add_all(sum);
    return sum;
  }

  Device* device_;
  parallel::world* world_;
  parallel::gradient_sums<Device> sums_;
  shard_gather<Device> gather_;
  std::vector<parallel::value_range> counted_;
  std::vector<optim::adamw_piece> pieces_;
};

}  // namespace trainer
RLCORE_END
