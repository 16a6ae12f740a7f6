// Strategies composed from axes: data, sharded, tensor, context, expert, pipeline.
#pragma once

#include <stdexcept>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"

RLCORE_BEGIN
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
    return data * s.context * s.tensor;
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

}  // namespace strategy

RLCORE_END
