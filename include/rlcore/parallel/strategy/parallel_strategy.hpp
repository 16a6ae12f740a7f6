// The parallel_strategy concept: the parallelism policy of a trainable_model.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/index_range.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN

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
/// part of an optimizer step (training/strategy/training_strategy.hpp).
template <class S>
concept parallel_strategy = std::copyable<S> &&
    requires(const S& s, std::span<const std::int64_t> costs, double& report, std::vector<double>& numbers,
             std::size_t n, std::int64_t number) {
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

RLCORE_END
