// The layout of ranks: degrees, context kind, reduction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace parallel {

/// - gather_kv: every rank all-gathers all keys and values (Llama 3).
/// - ring: keys and values travel around the ring, the softmax state stays (Liu et al. 2023, arXiv:2310.01889).
/// - ulysses: all rows of some heads instead of some rows of all heads (Jacobs et al. 2023, arXiv:2309.14509).
enum class context_kind { gather_kv, ring, ulysses };

/// In the order of the values.
inline constexpr const char* context_kind_names[] = {"gather_kv", "ring", "ulysses"};

/// The order in which the gradients of leaves (reduction.hpp) are added.
/// - tree: the binary tree over the leaf indices; the same bits for every number of ranks.
/// - exact: 64-bit integers in units of 2^-44; the same bits for every number of ranks and in any order.
/// - ranked: each rank's sum, then ((x0 + x1) + x2) + ... over ranks; the same bits on every engine.
/// - fast: the engine's own sum if it has one, else ranked. No engine has one yet.
enum class reduction_kind { fast, ranked, tree, exact };

/// In the order of the values.
inline constexpr const char* reduction_names[] = {"fast", "ranked", "tree", "exact"};

/// The value of a name in a list such as reduction_names. Throws std::invalid_argument.
template <class Kind, std::size_t N>
Kind named(const char* const (&names)[N], std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (name == names[i]) return static_cast<Kind>(i);
  throw std::invalid_argument("rlcore: no kind is called '" + std::string(name) + "'");
}

/// How layers are divided over the stages of a pipeline. Without `first` and `last` all stages have equally many; with
/// them the other stages share the rest equally. An accounted embedding or loss counts as one layer in front of the
/// first or behind the last, so that this stage has one layer less. A stage has `chunks` ranges of layers (virtual
/// stages); chunk c of stage r is virtual stage c * stages + r.
struct pipeline_division {
  int stages = 1, chunks = 1;
  std::optional<std::int64_t> first = {}, last = {};  ///< layers of the first and of the last stage
  bool account_for_embedding = false, account_for_loss = false;
};

/// Parallel axes, ZeRO stage and reduction order. mesh::of() validates them.
struct parallel_settings {
  int data = 0;  ///< 0: the ranks left by the other axes
  int context = 1, tensor = 1;
  int expert = 1;                   ///< divides the data x context ranks
  pipeline_division pipeline = {};  ///< stages of neighbouring ranks, each with some of the layers
  context_kind how_context = context_kind::gather_kv;
  bool sequence_parallel = false;
  /// ZeRO stage: 0 shards nothing (ddp), 1 the optimizer state, 2 also the gradients, 3 also the weights (FSDP).
  int zero = 3;
  int shard_ranks = 0;                ///< shard over this many consecutive ranks, replicate beyond (HSDP); 0: over all
  bool reshard_after_forward = true;  ///< zero 3: free a layer's weights after its forward and gather them again
  reduction_kind reduction = reduction_kind::tree;
  int leaves = 8;            ///< leaves of an optimizer step, independent of the number of ranks
  bool bf16_wire = false;    ///< send gradients as bfloat16; sums are formed in float
  int tp_reduce_chunks = 0;  ///< as in nn::config: makes the bits independent of the number of tensor ranks
  bool balance = true;       ///< leaves of equal cost; else equal numbers of consecutive rows
};

/// Sizes of the axes and a rank's place on them:
/// rank = (((stage * datas) + data) * contexts + context) * tensors + tensor.
struct mesh {
  int data_size = 1, context_size = 1, tensor_size = 1, expert_size = 1, shard_size = 1, pipeline_size = 1;
  int data = 0, context = 0, tensor = 0, stage = 0;

  /// Rank in the group over which gradients are summed: data x context.
  int sum() const noexcept { return data * context_size + context; }
  int sums_size() const noexcept { return data_size * context_size; }
  /// The number of ranks of a stage, and this rank's number among them.
  int stage_size() const noexcept { return sums_size() * tensor_size; }
  int place_in_stage() const noexcept { return sum() * tensor_size + tensor; }
  int replicas() const noexcept { return sums_size() / shard_size; }
  /// The number of ranks over which the same experts are sharded: within a group of shard_size, if it consists of whole
  /// expert groups.
  int expert_shard_size() const noexcept { return shard_size % expert_size == 0 ? shard_size / expert_size : 1; }

  /// Throws config_error unless the axes fill `ranks`.
  static mesh of(const parallel_settings& s, int rank, int ranks);
};

}  // namespace parallel
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PARALLEL)
RLCORE_BEGIN
namespace parallel {

RLCORE_INLINE mesh mesh::of(const parallel_settings& s, int rank, int ranks) {
  const auto axis = [](int value, const char* name, int least) {
    if (value < least)
      throw config_error(std::string(name) + " is " + std::to_string(value) + ", expected " + std::to_string(least) +
                         " or more");
  };
  axis(s.context, "the number of context parallel ranks", 1);
  axis(s.tensor, "the number of tensor parallel ranks", 1);
  axis(s.expert, "the number of expert parallel ranks", 1);
  axis(s.pipeline.stages, "the number of pipeline stages", 1);
  axis(s.pipeline.chunks, "the number of chunks of a stage", 1);
  axis(s.data, "the number of data parallel ranks", 0);
  axis(s.leaves, "rlcore.gradient_leaves", 1);
  axis(s.shard_ranks, "the number of ranks that share a copy (fsdp_size)", 0);
  if (s.zero < 0 || s.zero > 3)
    throw config_error("the ZeRO stage is " + std::to_string(s.zero) + ", expected 0, 1, 2 or 3");
  if (s.bf16_wire && s.reduction == reduction_kind::exact && s.zero < 2)
    throw config_error("exact sums of whole gradients travel as integers, not as bfloat16: use zero 2 or 3");
  const int others = s.context * s.tensor, stages = s.pipeline.stages, of_stage = ranks / stages;
  if (ranks % (others * stages) != 0 || (s.data != 0 && s.data * others * stages != ranks))
    throw config_error(std::to_string(ranks) + " ranks are not " +
                       (stages > 1 ? std::to_string(stages) + " pipeline x " : std::string()) +
                       (s.data != 0 ? std::to_string(s.data) + " data x " : std::string()) + std::to_string(s.context) +
                       " context x " + std::to_string(s.tensor) + " tensor parallel");
  if (stages > 1 && s.zero > 1)
    throw config_error("the ZeRO stage is " + std::to_string(s.zero) + " with " + std::to_string(stages) +
                       " pipeline stages, expected 0 or 1");
  mesh m;
  m.pipeline_size = stages, m.stage = rank / of_stage, rank %= of_stage;
  m.data_size = of_stage / others, m.context_size = s.context, m.tensor_size = s.tensor, m.expert_size = s.expert;
  m.tensor = rank % s.tensor, m.context = rank / s.tensor % s.context, m.data = rank / others;
  if (m.sums_size() % s.expert != 0)
    throw config_error(std::to_string(s.expert) + " expert parallel ranks do not divide the " +
                       std::to_string(m.sums_size()) + " data x context parallel ones");
  const int shared = s.shard_ranks == 0 ? m.sums_size() : s.shard_ranks;
  m.shard_size = s.zero == 0 ? 1 : shared;
  if (m.sums_size() % shared != 0 || (s.shard_ranks != 0 && shared % s.context != 0))
    throw config_error("weights shared by " + std::to_string(shared) + " ranks (fsdp_size), expected a divisor of " +
                       std::to_string(m.sums_size()) + " that is a multiple of " + std::to_string(s.context));
  return m;
}

}  // namespace parallel
RLCORE_END
#endif
