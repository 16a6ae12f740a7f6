// Strategies composed from axes (data, sharded, tensor, context, expert, pipeline), the one that a command line fills,
// and the rows of each rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace parallel {

/// Range `part` when `count` rows are split into `parts` consecutive ranges whose sizes differ by at most one.
inline index_range even_share(std::size_t count, std::size_t parts, std::size_t part) noexcept {
  return {count * part / parts, count * (part + 1) / parts};
}

/// The same by cost: a row belongs to the part that contains the midpoint of its cost interval.
inline index_range share_by_cost(std::span<const std::int64_t> cost, std::size_t parts, std::size_t part) {
  std::int64_t total = 0, before = 0;
  for (const std::int64_t c : cost) total += c;
  if (total <= 0) return even_share(cost.size(), parts, part);
  index_range range{cost.size(), cost.size()};
  for (std::size_t i = 0; i < cost.size(); before += cost[i++]) {
    // The part is floor(parts * middle / total), in whole numbers.
    const auto owner =
        static_cast<std::size_t>((2 * before + cost[i]) * static_cast<std::int64_t>(parts) / (2 * total));
    const std::size_t bounded = std::min(owner, parts - 1);
    if (bounded >= part) range.first = std::min(range.first, i);
    if (bounded > part) range.last = std::min(range.last, i);
  }
  return {std::min(range.first, range.last), range.last};
}

/// All-gathers the parts of all ranks of `group` in rank order.
template <class T>
std::vector<T> gather_parts(any_communicator& group, std::span<const T> mine) {
  if (group.size() == 1) return {mine.begin(), mine.end()};
  std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()));
  const std::size_t count = mine.size();
  group.all_gather(std::span<const std::size_t>(&count, 1), std::span(counts));
  std::size_t total = 0;
  for (const std::size_t n : counts) total += n;
  std::vector<T> out(total);
  group.all_gather_v(mine, std::span(out), std::span<const std::size_t>(counts));
  return out;
}

}  // namespace parallel

/// The strategy of parallel_settings over any engine: data, sharded (ZeRO 1 to 3), tensor, context, expert and pipeline
/// parallelism in any combination (pipelines with ZeRO 0 and 1). Copies refer to the same process groups.
class any_strategy {
 public:
  /// One rank that accumulates the gradients of a step in one sum, in row order.
  any_strategy() : any_strategy(std::make_shared<one_rank>()) {}
  /// The groups of `world`, which must outlive this; null: one rank.
  any_strategy(parallel::world* world)
      : any_strategy(world ? any_strategy(std::shared_ptr<parallel::world>(std::shared_ptr<void>(), world))
                           : any_strategy()) {}
  /// Creates its own groups among `ranks`, which must outlive this. A collective call with the same settings in all
  /// ranks. Throws config_error as parallel::mesh::of().
  explicit any_strategy(parallel::any_communicator& ranks, const parallel::parallel_settings& settings = {})
      : any_strategy(std::make_shared<parallel::world>(ranks, settings)) {}

  int rank() const { return world_->all().rank(); }
  int size() const { return world_->all().size(); }
  bool first() const noexcept { return world_->first(); }
  const parallel::parallel_settings& settings() const noexcept { return world_->settings(); }
  /// Those of this rank's stage.
  parallel::index_range layers(std::size_t n) const {
    const std::vector<parallel::index_range> ranges =
        parallel::divide_layers(static_cast<std::int64_t>(n), settings().pipeline);
    return ranges[static_cast<std::size_t>(world_->place().stage)];
  }
  /// This rank's experts.
  parallel::index_range experts(std::size_t n) const {
    const parallel::any_communicator& group = world_->expert();
    return parallel::even_share(n, static_cast<std::size_t>(group.size()), static_cast<std::size_t>(group.rank()));
  }
  /// This data parallel rank's rows; all ranks have about the same cost.
  parallel::index_range rows(std::span<const std::int64_t> costs) const {
    const parallel::any_communicator& group = world_->data();
    if (group.size() == 1) return {0, costs.size()};
    return parallel::share_by_cost(costs, static_cast<std::size_t>(group.size()),
                                   static_cast<std::size_t>(group.rank()));
  }
  /// Sums over the data parallel ranks.
  template <class T>
  void sum(T& report) const {
    parallel::sum_over_ranks(*world_, report);
  }
  /// Gathers from the data parallel ranks of the last stage.
  template <class T>
  void gather(std::vector<T>& numbers) const {
    numbers = parallel::gather_parts(world_->data(), std::span<const T>(numbers));
    parallel::broadcast_from_last_stage(*world_, std::span<T>(numbers));
  }
  /// Do all ranks call with the same number?
  bool agree(std::int64_t number) const {
    bool same = true;
    for (const std::int64_t each : parallel::gather_parts(world_->all(), std::span<const std::int64_t>(&number, 1)))
      same = same && each == number;
    return same;
  }
  void barrier() const { world_->all().barrier(); }

  /// The process groups; never null.
  parallel::world* world() const noexcept { return world_.get(); }

  template <class Device>
  class share;  // train/model/strategy/ranked.hpp
  template <class Device>
  class frozen;  // train/model/strategy/ranked.hpp

 private:
  explicit any_strategy(std::shared_ptr<parallel::world> world) : world_(std::move(world)) {}
  struct one_rank {
    parallel::any_communicator_of<parallel::alone> self{parallel::alone{}};
    parallel::world world{self, {.zero = 0, .reduction = parallel::reduction_kind::ranked, .leaves = 1}};
  };
  explicit any_strategy(const std::shared_ptr<one_rank>& one) : any_strategy({one, &one->world}) {}

  std::shared_ptr<parallel::world> world_;
};

static_assert(parallel_strategy<any_strategy>);

namespace strategy {

/// Sets an axis of a type. Throws std::logic_error (a compile error in a constant expression) if it is already set.
constexpr void set_axis(int& axis, int unset, int value) {
  if (axis != unset) throw std::logic_error("rlcore: a strategy names an axis twice");
  axis = value;
}

/// The base of a strategy `Self` that fixes axes: Self::set(s) sets its own and those of the strategies inside it.
/// Everything else (the order of sums, the number of leaves, ...) comes from settings. Training is bit-identical to
/// any_strategy with these axes.
template <class Self>
class composed : public any_strategy {
 public:
  /// Creates groups among `ranks`, which must outlive this; a collective call. Throws std::invalid_argument unless the
  /// axes of `rest` have their defaults, config_error if the axes do not fill the ranks.
  explicit composed(parallel::any_communicator& ranks, const parallel::parallel_settings& rest = {})
      : any_strategy(ranks, with_axes(rest)) {}

  /// Only the axes; without `sharded` nothing is sharded (zero 0).
  static constexpr parallel::parallel_settings axes() {
    parallel::parallel_settings s;
    s.zero = 0;
    Self::set(s);
    return s;
  }
  /// The minimum number of ranks that the axes fill.
  static constexpr int least_ranks() {
    constexpr parallel::parallel_settings s = axes();
    int data = s.data;
    if (data == 0)
      for (data = 1; data * s.context % s.expert != 0;) ++data;
    return data * s.context * s.tensor * s.pipeline.stages;
  }

 private:
  static parallel::parallel_settings with_axes(parallel::parallel_settings s) {
    static constexpr parallel::parallel_settings unset{}, fixed = axes();
    const auto fix = [](int& axis, int of_default, int value, const char* name) {
      if (axis != of_default && axis != value)
        throw std::invalid_argument("rlcore: strategy: " + std::string(name) + " is " + std::to_string(axis) +
                                    " in the settings and " + std::to_string(value) + " in the type");
      axis = value;
    };
    fix(s.data, unset.data, fixed.data, "data");
    fix(s.context, unset.context, fixed.context, "context");
    fix(s.tensor, unset.tensor, fixed.tensor, "tensor");
    fix(s.expert, unset.expert, fixed.expert, "expert");
    fix(s.pipeline.stages, unset.pipeline.stages, fixed.pipeline.stages, "pipeline");
    fix(s.zero, unset.zero, fixed.zero, "zero");
    if (fixed.context > 1) s.how_context = fixed.how_context;
    return s;
  }
};

/// Data parallelism: ranks that split the rows of a step and hold the same weights: data<4>, data<2, tensor<2>>.
/// Without a number, or with 0, uses all ranks that the other axes leave.
template <int Ranks = 0, class... Inside>
struct data : composed<data<Ranks, Inside...>> {
  static_assert(Ranks >= 0, "rlcore: strategy::data: the number of ranks is 0 (what other axes leave) or more");
  using composed<data<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.data, 0, Ranks);
    (Inside::set(s), ...);
  }
};

/// Sharded data parallelism (ZeRO, Rajbhandari et al. 2020): stage 1 shards the optimizer state, 2 also the gradients,
/// 3 also the weights (FSDP). sharded<3>, sharded<3, tensor<2>>, sharded<2, data<4>, context<2>>.
template <int Stage, class... Inside>
struct sharded : composed<sharded<Stage, Inside...>> {
  static_assert(Stage >= 1 && Stage <= 3, "rlcore: strategy::sharded: the stage is 1, 2 or 3");
  using composed<sharded<Stage, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.zero, 0, Stage);
    (Inside::set(s), ...);
  }
};

/// Tensor parallelism: each rank has a part of every matrix (Megatron-LM): tensor<2>.
template <int Ranks, class... Inside>
struct tensor : composed<tensor<Ranks, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::tensor: the number of ranks is 1 or more");
  using composed<tensor<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.tensor, 1, Ranks);
    (Inside::set(s), ...);
  }
};

/// Context parallelism: each rank has a part of every sequence; ranks gather keys and values, pass them around a ring,
/// or exchange heads (Ulysses): context<2>, context<4, parallel::context_kind::ring>.
template <int Ranks, parallel::context_kind Kind = parallel::context_kind::gather_kv, class... Inside>
struct context : composed<context<Ranks, Kind, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::context: the number of ranks is 1 or more");
  using composed<context<Ranks, Kind, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.context, 1, Ranks);
    s.how_context = Kind;
    (Inside::set(s), ...);
  }
};

/// Expert parallelism: ranks that divide the experts of a model; they are a subset of the data x context ranks:
/// expert<2>, sharded<1, expert<4>>.
template <int Ranks, class... Inside>
struct expert : composed<expert<Ranks, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::expert: the number of ranks is 1 or more");
  using composed<expert<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.expert, 1, Ranks);
    (Inside::set(s), ...);
  }
};

/// Pipeline parallelism: stages of ranks, each with some of the layers, that pass micro-batches on (1F1B): pipeline<2>,
/// pipeline<4, data<2>>, sharded<1, pipeline<2>>.
template <int Ranks, class... Inside>
struct pipeline : composed<pipeline<Ranks, Inside...>> {
  static_assert(Ranks >= 1, "rlcore: strategy::pipeline: the number of stages is 1 or more");
  using composed<pipeline<Ranks, Inside...>>::composed;

  /// Sets its axis and those inside it.
  static constexpr void set(parallel::parallel_settings& s) {
    set_axis(s.pipeline.stages, 1, Ranks);
    (Inside::set(s), ...);
  }
};

}  // namespace strategy
RLCORE_END
