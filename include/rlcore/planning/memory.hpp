// The memory of one device.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/traffic.hpp"

RLCORE_BEGIN
namespace trainer::planning {

/// Bytes of one device. Training and sampling alternate: neither holds the other stage's memory.
struct memory_need {
  double state = 0;      ///< this rank's share of float weights, gradients and both moments
  double reference = 0;  ///< the reference model
  double weights = 0;    ///< training: gathered layers, or the packed copy for matrix products
  double gradients = 0;  ///< gradients of layers in transit to their owners, if sharded
  double activations = 0;
  double logits = 0;
  double rollout_weights = 0;
  double cache = 0;         ///< KV cache of the sequences that a device samples together
  double cache_of_one = 0;  ///< one device's part of the longest sequence

  double training() const noexcept { return state + reference + weights + gradients + activations + logits; }
  double sampling() const noexcept { return state + reference + rollout_weights + cache; }
  double least_sampling() const noexcept { return state + reference + rollout_weights + cache_of_one; }
  double peak() const noexcept { return std::max(training(), least_sampling()); }
};

/// The values per token of one layer that a backward pass needs: those that tensor parallelism splits, and the rest.
struct layer_values {
  double split = 0, whole = 0;
  /// Counts for the shape of one layer. Counts only the active experts of a token.
  explicit layer_values(const model_shape& m);
};

/// Memory of one device of layout `l` for one step `w` of the model `m`, in bytes. The KV cache gets the remaining
/// memory, up to the need of the sequences.
memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c);

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning {

RLCORE_INLINE layer_values::layer_values(const model_shape& m) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double copies = m.experts == 0 ? 1 : f(m.experts_per_token);
  split = 2 * f(m.query_width()) + 2 * f(m.kv_width()) + 3 * copies * f(m.intermediate_size);
  whole = 4 * f(m.hidden_size) + (m.experts == 0 ? 0 : 2 * copies * f(m.hidden_size));
}

RLCORE_INLINE memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const local_sizes local(m, l.tensor, l.expert_parts());
  const double packed = c.value_bytes, value = l.value_bytes(c);
  const double held = l.compute_type ? packed : value + packed;  // gathered, with the packed copy for matrix products
  const double dense = f(l.shards()), expert = f(l.expert_shard_ranks());
  const double shard = local.dense() / dense + local.all_experts() / expert, whole = local.total();
  memory_need need;
  need.state =
      4 * (l.zero == 3 ? shard : whole) + 4 * (l.zero >= 2 ? shard : whole) + 8 * (l.zero >= 1 ? shard : whole);
  if (w.reference != reference_form::none)
    need.reference = w.reference == reference_form::whole ? held * static_cast<double>(m.parameters())
                     : l.zero == 3                        ? 4 * shard
                                                          : held * whole;
  const double unit = local.layer + local.experts;
  if (l.zero < 3) {
    need.weights = packed * whole;
  } else {
    need.weights = held * (l.reshard_after_forward ? local.ends + local.tower + 2 * unit : whole);
  }
  // A leaf's gradient is complete after its last micro-batch, and is sharded then. With zero 3 and a leaf of one
  // micro-batch it goes layer by layer.
  if (l.zero >= 2)
    need.gradients = 4 * (l.zero == 2 || b.micro > b.leaves ? whole : 2 * std::max(unit, local.ends + local.tower));

  // Experts hold gradients for the rows of every remote rank, unless ranks sum all their leaves.
  const bool together = l.zero < 2 && (l.sums == reduction_kind::ranked || l.sums == reduction_kind::fast);
  if (m.experts > 0 && !together)
    need.gradients += 4 * f(l.expert - 1) * local_sizes(m, l.tensor, l.expert).all_experts();

  const layer_values layer(m);
  const double tokens = f(b.tokens), split = f(l.tensor);
  const double one = tokens * value * (layer.split / split + layer.whole / (l.sequence_parallel ? split : 1));
  const double inputs = tokens * value * f(m.hidden_size) * f(m.layers) / (l.sequence_parallel ? split : 1);
  need.activations = inputs + (w.recompute ? 2 * one : f(m.layers + 1) * one);
  need.activations += value * f(b.micro_rows) * m.tower_values(f(w.image_tokens), w.recompute);
  if (l.how_context == context_kind::gather_kv && l.context > 1)  // gathered, with their gradients
    need.activations += tokens * f(l.context) * 2 * f(m.kv_width()) / split * (value + 4);
  need.logits = std::min(w.logits_bytes, tokens * f(m.vocab_size) * 4 / split);

  const local_sizes rollout(m, l.rollout_tensor, l.sampled_expert_parts());
  // The state already counts whole weights, but not their packed copy.
  const bool there = l.zero < 3 && l.rollout_tensor == l.tensor && !l.collects_experts();
  need.rollout_weights = (there ? packed : held) * rollout.total();
  const double per_token = m.kv_values() * value / f(l.rollout_tensor);
  need.cache_of_one = per_token * f(w.length());
  const double replicas = f(l.devices()) / f(l.rollout_tensor);
  const double wanted = per_token * f(w.length()) * std::ceil(f(w.sequences()) / replicas);
  const double left = c.memory * c.usable_share - need.least_sampling() + need.cache_of_one;
  need.cache = std::clamp(left, need.cache_of_one, std::max(wanted, need.cache_of_one));
  return need;
}

}  // namespace trainer::planning
RLCORE_END
#endif
