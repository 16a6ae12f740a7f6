// Single-rank strategy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"

RLCORE_BEGIN
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
  class share;  // training/strategy/alone.hpp
  template <class Device>
  class frozen;  // training/strategy/alone.hpp
};

static_assert(parallel_strategy<alone>);

}  // namespace strategy
RLCORE_END
