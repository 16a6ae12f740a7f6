// How ranks train one model together: the policy of a trainable_model beside its device.
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

/// A strategy says which rank this is among those that train together, what it holds or computes, and what the ranks
/// tell each other. It is a small value: copies mean the same ranks. All ranks make the same calls in the same order.
///
/// - rank(), size(), first(): the place among all ranks; the first one writes files and reports.
/// - settings(): the order of sums, and what is cut.
/// - layers(n), experts(n): of n layers or experts of a layer, those that this rank computes.
/// - rows(costs): of the rows of an evaluation that cost so much each, those that this rank evaluates.
/// - sum(report): `report`, with +=, becomes the sum over all ranks that share rows, in the order of ranks.
/// - gather(numbers): the numbers of this rank's rows() become those of all rows, in their order.
/// - agree(number): do all ranks call with the same number?
/// - barrier(): waits for all ranks.
///
/// A strategy that trains has a class template share<Device> besides: what this rank holds of a model in training, and
/// its part in an optimizer step (training/strategy/training_strategy.hpp).
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
