// Type-erased parallel strategy, chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/alone.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/row_shares.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN

/// The strategy of parallel_settings over any engine: data, sharded (ZeRO 1 to 3), tensor, context and expert
/// parallelism in any combination. Copies refer to the same process groups.
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
  /// All of them: no pipeline parallelism.
  parallel::index_range layers(std::size_t n) const noexcept { return {0, n}; }
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
  /// Gathers from the data parallel ranks.
  template <class T>
  void gather(std::vector<T>& numbers) const {
    numbers = parallel::gather_parts(world_->data(), std::span<const T>(numbers));
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
  class share;  // training/strategy/ranked.hpp
  template <class Device>
  class frozen;  // training/strategy/ranked.hpp

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

RLCORE_END
