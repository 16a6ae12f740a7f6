// Sharded optimizer step: gradient norm in an order that the sharding does not change, update, and passes in which
// ranks without rows take part in the collectives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/gradients.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/leaf_plan.hpp"
#include "rlcore/train/model/sharded/gathered_layers.hpp"

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

/// The sum of the squares of all stages, in the order of the units of the whole model. `numbers` order this
/// stage's units among those of all stages; each has `counts` of the `squares`.
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

/// Runs the collectives of a pass without rows; calls done(unit) where a unit's gradient would be complete.
template <class Device, class Done>
void idle_pass(const nn::causal_lm<Device>& model, Done&& done) {
  const std::size_t layers = model.blocks().size();
  const bool tied = model.settings().tied();
  nn::idle_forward(*model.units(), layers, tied);
  nn::idle_backward(*model.units(), layers, tied, model.trains_tower(), done);
}

/// A round in which no leaf has more than one pass: calls f(rows) for the pass of this rank's leaf, if it has rows.
/// Gradients are sent to their owners unit by unit, so no rank ever holds a full gradient.
template <class Device, class F>
void unit_round(const nn::causal_lm<Device>& model, nn::gradients<Device>& gradient,
                parallel::gradient_sums<Device>& sums, const leaf_plan& plan, std::size_t leaf, std::size_t round,
                F&& f) {
  if (leaf == parallel::leaf_schedule::none || plan.empty(leaf))
    return idle_pass(model, [&](std::size_t unit) { sums.take_unit(round, unit, nullptr); });
  struct to_owners final : nn::unit_sink {
    parallel::gradient_sums<Device>& sums;
    std::size_t round, taken = 0;
    to_owners(parallel::gradient_sums<Device>& s, std::size_t r) : sums(s), round(r) {}
    void take(std::size_t unit, const float* values) override {
      sums.take_unit(round, unit, values);
      ++taken;
    }
  } sink(sums, round);
  const std::vector<std::size_t> ends = nn::unit_ends(model.parameters());
  gradient.by_units(ends, &sink);
  plan.for_each_pass(leaf, f);
  gradient.by_units({}, nullptr);
  if (sink.taken != ends.size())
    throw std::logic_error("rlcore: for_micro_batches: f made no backward pass, expected one");
}

/// Operates on a flat vector of parameters. With ZeRO 1 or more this rank's optimizer holds only its shard.
template <class Device>
class sharded_update {
 public:
  /// `counted` holds the ranges that this rank adds to the norm when ranks share tensors.
  /// `restarts` lists the positions where the blocks of a unit restart, `unit_numbers` orders the units of
  /// a stage of a pipeline among those of all (nn::unit_numbers; of adapters the number of the stage).
  sharded_update(Device& device, parallel::world& w, std::vector<std::size_t> unit_ends,
                 std::vector<parallel::value_range> counted = {}, std::span<const std::size_t> restarts = {},
                 std::vector<std::size_t> unit_numbers = {})
      : device_(&device),
        world_(&w),
        sums_(device, w, std::move(unit_ends), restarts),
        gather_(device, w.shards(), sums_.layout()),
        counted_(std::move(counted)),
        unit_numbers_(std::move(unit_numbers)),
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
    std::vector<double> in_order;
    std::vector<std::size_t> counts;
    for (std::size_t u = 0; u < layout().units(); ++u) {
      const std::size_t before = in_order.size();
      squares.append_unit(u, in_order);
      if (experts) experts->append_unit(u, in_order);
      counts.push_back(in_order.size() - before);
    }
    if (world_->pipeline().size() > 1) {
      parallel::meet_stages(*world_);
      return sum_of_stages(world_->pipeline(), unit_numbers_, counts, in_order);
    }
    return std::accumulate(in_order.begin(), in_order.end(), 0.0);
  }

  /// Gathers all shards into `weights`, which already holds this rank's shard in its places.
  void gather(float* weights) { gather_.every_unit(weights); }

 private:
  /// Sums the counted pieces of this rank in double, then the shards in order, then the tensor parallel ranks in order,
  /// then the stages.
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
    const auto add_up = [&](parallel::any_communicator& group) {
      if (group.size() == 1) return;
      std::vector<double> gathered(static_cast<std::size_t>(group.size()));
      group.all_gather(std::span<const double>(&sum, 1), std::span<double>(gathered));
      sum = std::accumulate(gathered.begin(), gathered.end(), 0.0);
    };
    if (layout().ranks() > 1) add_up(world_->shards());
    add_up(world_->tensor());
    if (experts) experts->add_all(sum);
    parallel::meet_stages(*world_);
    add_up(world_->pipeline());
    return sum;
  }

  Device* device_;
  parallel::world* world_;
  parallel::gradient_sums<Device> sums_;
  shard_gather<Device> gather_;
  std::vector<parallel::value_range> counted_;
  std::vector<std::size_t> unit_numbers_;
  std::vector<optim::adamw_piece> pieces_;
};

}  // namespace train
RLCORE_END
