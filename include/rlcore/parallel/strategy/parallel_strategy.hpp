// The concept of a parallel strategy, and the strategy of one rank.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace parallel {

/// The range [first, last) of rows, layers or experts.
struct index_range {
  std::size_t first = 0, last = 0;

  constexpr std::size_t size() const noexcept { return last - first; }
  friend bool operator==(const index_range&, const index_range&) = default;
};

}  // namespace parallel

/// A strategy defines the rank, the layers, experts and rows that it computes, and the collectives of training. It is a
/// small value type: copies refer to the same ranks. All ranks make the same calls in the same order.
///
/// - rank(), size(), first(): the rank among all ranks; the first rank writes files and reports.
/// - settings(): the reduction order and the ZeRO stage.
/// - layers(n), experts(n): the range of n layers, or of n experts per layer, that this rank computes.
/// - rows(costs): the rows of an evaluation, with these costs, that this rank evaluates.
/// - sum(report): all-reduces `report` with += over the data parallel ranks, in rank order.
/// - gather(numbers): all-gathers the numbers of each rank's rows() into those of all rows, in row order.
/// - agree(number): do all ranks call with the same number?
/// - barrier(): waits for all ranks.
///
/// A strategy for training also has a class template share<Device>: this rank's shard of a model in training and its
/// part of an optimizer step (train/model/strategy/training_strategy.hpp).
template <class S>
concept parallel_strategy =
    std::copyable<S> && requires(const S& s, std::span<const std::int64_t> costs, double& report,
                                 std::vector<double>& numbers, std::size_t n, std::int64_t number) {
      { s.rank() } -> std::same_as<int>;
      { s.size() } -> std::same_as<int>;
      { s.first() } -> std::same_as<bool>;
      { s.settings() } -> std::convertible_to<parallel::parallel_settings>;
      { s.layers(n) } -> std::same_as<parallel::index_range>;
      { s.experts(n) } -> std::same_as<parallel::index_range>;
      { s.rows(costs) } -> std::same_as<parallel::index_range>;
      s.sum(report);
      s.gather(numbers);
      { s.agree(number) } -> std::same_as<bool>;
      s.barrier();
    };

namespace strategy {

/// One rank holds everything: no communicator, no collectives, no branches on the number of ranks. Gradients are added
/// along the tree over `leaves` leaves, as with several ranks, so that a run is bit-identical to a run on any number of
/// ranks.
struct alone {
  int leaves = parallel::parallel_settings{}.leaves;  ///< leaves of an optimizer step
  bool balance = true;                                ///< leaves of equal cost; else equal numbers of consecutive rows

  static constexpr int rank() noexcept { return 0; }
  static constexpr int size() noexcept { return 1; }
  static constexpr bool first() noexcept { return true; }
  constexpr parallel::parallel_settings settings() const noexcept {
    return {.data = 1, .zero = 0, .leaves = leaves, .balance = balance};
  }
  /// All of them.
  static constexpr parallel::index_range layers(std::size_t n) noexcept { return {0, n}; }
  /// All of them.
  static constexpr parallel::index_range experts(std::size_t n) noexcept { return {0, n}; }
  /// All of them.
  static constexpr parallel::index_range rows(std::span<const std::int64_t> costs) noexcept {
    return {0, costs.size()};
  }
  /// Does nothing: `report` is the sum.
  template <class T>
  static constexpr void sum(T& report) noexcept {
    static_cast<void>(report);
  }
  /// Does nothing: all numbers are local.
  template <class Numbers>
  static constexpr void gather(Numbers& numbers) noexcept {
    static_cast<void>(numbers);
  }
  /// Always true.
  static constexpr bool agree(std::int64_t) noexcept { return true; }
  static constexpr void barrier() noexcept {}

  template <class Device>
  class share;  // train/model/strategy/alone.hpp
  template <class Device>
  class frozen;  // train/model/strategy/alone.hpp
};

static_assert(parallel_strategy<alone>);

}  // namespace strategy
RLCORE_END
