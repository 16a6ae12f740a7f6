// Parallel layout: mesh sizes and what is sharded over the mesh.
#pragma once

#include <cstdint>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/workload.hpp"

RLCORE_BEGIN
namespace trainer::planning {

using parallel::context_kind;
using parallel::reduction_kind;

/// Ranks are ((data * context) * tensor), tensor fastest; expert groups lie over data x context.
struct layout {
  std::int64_t data = 1, context = 1, tensor = 1, expert = 1;
  int zero = 3;                     ///< 0: DDP
  std::int64_t rollout_tensor = 1;  ///< devices that hold one copy of the weights while sampling
  context_kind how_context = context_kind::gather_kv;
  reduction_kind sums = reduction_kind::tree;
  bool sequence_parallel = false;     ///< activations between the products of a layer are split over the tensor group
  bool reshard_after_forward = true;  ///< zero 3: a layer's weights are gathered again for its backward
  bool wire_bf16 = false;             ///< gradients travel in bf16
  bool compute_type = false;          ///< gathered, kept or sent values have the compute type; this library uses floats
  bool expert_shards = false;    ///< weights of experts lie on one rank of a group with zero 3 and while sampling too;
                                 ///< this library's trainers then hold shards of all; all to sample
  bool leaf_of_micro = false;    ///< one leaf per micro-batch: gradients never whole, more traffic
  std::int64_t shard_ranks = 0;  ///< ranks that state is sharded over, replicated beyond (HSDP); 0: over all

  std::int64_t devices() const noexcept { return data * context * tensor; }
  /// summed: the ranks whose gradients are added. shards: those that a non-expert parameter is sharded over. replicas:
  /// the number of such groups. expert_shard_ranks: the ranks that one expert's parameters are sharded over.
  std::int64_t summed() const noexcept { return data * context; }
  std::int64_t shards() const noexcept { return shard_ranks == 0 ? summed() : shard_ranks; }
  std::int64_t replicas() const noexcept { return summed() / shards(); }
  std::int64_t expert_shard_ranks() const noexcept { return expert_parts() > 1 ? summed() / expert : shards(); }
  /// The number of parts that the weights of experts are divided into, in training and while sampling.
  std::int64_t expert_parts() const noexcept { return expert_shards || zero < 3 ? expert : 1; }
  std::int64_t sampled_expert_parts() const noexcept { return expert_shards ? expert : 1; }
  /// True if non-training passes need experts of remote ranks.
  bool collects_experts() const noexcept { return sampled_expert_parts() < expert_parts(); }

  /// The bytes of a value that is not a product's operand.
  double value_bytes(const cluster& c) const noexcept { return compute_type ? c.value_bytes : 4; }

  std::string text() const;
};

/// One line with the reason why the layout is impossible; empty if it is possible.
std::string check_layout(const layout& l, const model_shape& m, const workload& w, std::int64_t devices);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE std::string layout::text() const {
  std::string out = "zero" + std::to_string(zero) + " data " + std::to_string(data);
  const auto add = [&](const char* name, std::int64_t n) {
    if (n > 1) out += std::string(" ") + name + " " + std::to_string(n);
  };
  add("context", context), add("tensor", tensor), add("expert", expert),
      add("rollout", rollout_tensor == tensor ? 1 : rollout_tensor), add("shared by", shard_ranks);
  return out + (leaf_of_micro ? " small leaves" : "");
}

RLCORE_INLINE std::string check_layout(const layout& l, const model_shape& m, const workload& w, std::int64_t devices) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto divides = [&](const char* name, std::int64_t n, const char* of, std::int64_t whole) -> std::string {
    if (n >= 1 && whole % n == 0) return {};
    return std::string(name) + "=" + number(n) + " does not divide " + of + " " + number(whole);
  };
  for (const std::string& why :
       {divides("tensor", l.tensor, "the key and value heads", m.kv_heads),
        m.experts == 0 ? divides("tensor", l.tensor, "intermediate_size", m.intermediate_size) : std::string(),
        divides("rollout_tensor", l.rollout_tensor, "the key and value heads", m.kv_heads),
        divides("rollout_tensor", l.rollout_tensor, "the devices", devices),
        m.experts == 0 ? (l.expert == 1 ? std::string() : "expert=" + number(l.expert) + ": the model has no experts")
                       : divides("expert", l.expert, "the experts", m.experts),
        divides("expert", l.expert, "data x context", l.summed()),
        divides("shard_ranks", l.shards(), "data x context", l.summed()),
        l.shard_ranks == 0 || l.shard_ranks % l.context == 0
            ? std::string()
            : "shard_ranks=" + number(l.shard_ranks) + " is not a multiple of context " + number(l.context),
        l.shard_ranks != 0 && l.expert_parts() > 1 ? std::string("shard_ranks together with expert is not planned")
                                                   : std::string(),
        l.how_context == context_kind::ulysses
            ? divides("context", l.context, "the key and value heads of a tensor rank", m.kv_heads / l.tensor)
            : std::string()})
    if (!why.empty()) return why;
  if (l.devices() != devices)
    return "data " + number(l.data) + " x context " + number(l.context) + " x tensor " + number(l.tensor) + " are " +
           number(l.devices()) + " devices, not " + number(devices);
  const std::int64_t rows = w.sequences() / w.updates;
  if (l.data > rows)
    return "data=" + number(l.data) + " has more ranks than an update has sequences (" + number(rows) + ")";
  return {};
}

}  // namespace trainer::planning
RLCORE_END
#endif
