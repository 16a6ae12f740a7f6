// Gradient norm of a sharded gradient: squares summed in an order that the sharding does not change.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace train {

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

/// The number of blocks of rank r's shard.
inline std::size_t blocks_of_shard(const parallel::shard_layout& layout, std::size_t r) {
  std::size_t n = 0;
  for (std::size_t u = 0; u < layout.units(); ++u) n += layout.blocks_of(u, r);
  return n;
}

/// The sums of squares of the blocks of all shards, in double, shard after shard. All ranks of `shards` call it
/// together; this rank holds `shard`.
template <class Device>
std::vector<double> gathered_squares(Device& device, const parallel::shard_layout& layout, std::size_t rank,
                                     const float* shard, parallel::any_communicator& shards) {
  const std::vector<double> squares = layout_squares(device, layout, rank, shard);
  if (layout.ranks() == 1) return squares;
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < layout.ranks(); ++r) counts.push_back(blocks_of_shard(layout, r));
  std::vector<double> sums(std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
  shards.all_gather_v(std::span<const double>(squares), std::span<double>(sums), std::span<const std::size_t>(counts));
  return sums;
}

/// Lists gathered_squares(), unit by unit from the first.
class squares_in_order {
 public:
  /// `sums` is the result of gathered_squares(); both arguments must outlive this object.
  squares_in_order(const parallel::shard_layout& layout, std::span<const double> sums) : layout_(&layout), sums_(sums) {
    std::size_t at = 0;
    for (std::size_t r = 0; r < layout.ranks(); ++r) {
      at_.push_back(at);
      at += blocks_of_shard(layout, r);
    }
  }

  /// Appends the blocks of unit u to `squares`, shard after shard. Units must be appended in order.
  void append_unit(std::size_t u, std::vector<double>& squares) {
    for (std::size_t r = 0; r < layout_->ranks(); ++r)
      for (std::size_t b = layout_->blocks_of(u, r); b > 0; --b) squares.push_back(sums_[at_[r]++]);
  }

 private:
  const parallel::shard_layout* layout_;
  std::span<const double> sums_;
  std::vector<std::size_t> at_;
};

/// The squares of distributed experts.
class expert_squares {
 public:
  expert_squares() = default;
  expert_squares(const expert_squares&) = delete;
  expert_squares& operator=(const expert_squares&) = delete;
  virtual ~expert_squares() = default;

  /// Appends the squares of the experts that belong to unit u of the non-expert parameters, in order.
  virtual void append_unit(std::size_t u, std::vector<double>& squares) = 0;
  /// Adds the squares of all experts, if the non-expert squares have no block order either.
  virtual void add_all(double& total) = 0;
};

/// The sum of the squares of all stages, in the order of the units of the whole model. `numbers` are those of this
/// stage's units (nn::unit_numbers), which have `counts` of the `squares` each.
inline double sum_of_stages(parallel::any_communicator& stages, std::span<const std::size_t> numbers,
                            std::span<const std::size_t> counts, std::span<const double> squares) {
  const std::vector<std::size_t> all_numbers = parallel::gather_parts(stages, numbers),
                                 all_counts = parallel::gather_parts(stages, counts);
  const std::vector<double> all = parallel::gather_parts(stages, squares);
  std::vector<std::size_t> order(all_numbers.size()), begins(1, 0);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (const std::size_t n : all_counts) begins.push_back(begins.back() + n);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return all_numbers[a] < all_numbers[b]; });
  double total = 0;
  for (const std::size_t u : order)
    for (std::size_t i = begins[u]; i < begins[u + 1]; ++i) total += all[i];
  return total;
}

/// Ranges of the flat parameters that only this rank holds, and on the first rank also those held by all.
inline std::vector<parallel::value_range> counted_ranges(std::span<const nn::parameter> parameters, int tensor_rank) {
  std::vector<parallel::value_range> ranges;
  for (const nn::parameter& p : parameters)
    if (p.split() || tensor_rank == 0) ranges.push_back({p.offset, p.offset + p.size});
  return ranges;
}

}  // namespace train

RLCORE_END
