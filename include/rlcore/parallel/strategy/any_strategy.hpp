// The strategy that a command line fills, and the rows of each rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"
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
