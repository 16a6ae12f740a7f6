// Parallel axes of a strategy: data, sharded, tensor, context, expert.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/context_kind.hpp"
#include "rlcore/parallel/strategy/composed.hpp"

RLCORE_BEGIN
namespace strategy {

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

}  // namespace strategy

RLCORE_END
