// Memory of a device in training and while it samples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/traffic.hpp"
#include "rlcore/train/model/leaf_plan.hpp"

RLCORE_BEGIN
namespace train::planning {

/// Bytes of a program with a tokenizer and some thousand rows.
inline constexpr double program_bytes = 110 << 20;

/// Bytes of one device, in a pipeline of one of the busiest stage. Training alternates with sampling or
/// evaluation, which keeps the memory of training's passes.
struct memory_need {
  std::int64_t stage = 0;  ///< of a pipeline
  double program = 0;      ///< on a host: code, tokenizer and rows
  double state = 0;        ///< this rank's share of float weights, gradients and both moments
  double released = 0;     ///< of these: gradients that are freed while sampling or evaluating
  double reference = 0;    ///< the reference model
  double weights = 0;      ///< training: gathered layers, or the packed copy of all or of some for matrix products
  double gradients = 0;    ///< of layers in transit to their owners, if sharded, or of leaves that wait for their sum
  double activations = 0;
  double logits = 0;
  double messages = 0;         ///< on a host: hidden states and gradients on their way to other stages
  double rollout_weights = 0;  ///< of sampling or evaluation
  double passes = 0;           ///< sampling or evaluation: activations and logits, no less than in training
  double sampled_logits = 0;   ///< of these the logits
  double cache = 0;            ///< KV cache of the sequences that a device samples together
  double cache_of_one = 0;     ///< one device's part of the longest sequence

  double training() const noexcept {
    return program + state + reference + weights + gradients + activations + logits + messages;
  }
  double sampling() const noexcept { return program + state - released + reference + rollout_weights + cache + passes; }
  double least_sampling() const noexcept { return sampling() - cache + cache_of_one; }
  double peak() const noexcept { return std::max(training(), least_sampling()); }
};

/// The values per token of one layer that a backward pass needs, and those that all layers share in the backward:
/// that tensor parallelism splits, and the rest.
struct layer_values {
  double split = 0, whole = 0, split_scratch = 0, whole_scratch = 0;
  /// Counts for the shape of one layer. Counts only the active experts of a token, on ranks that divide them those of
  /// the rows that it receives, too.
  layer_values(const model_shape& m, bool divided_experts);
};

/// Memory of one device of layout `l` for one step `w` of the model `m`, in bytes. The KV cache gets the remaining
/// memory, up to the need of the sequences. With stages of a pipeline this is the device with the highest peak, and
/// its cache is the smallest of all stages.
memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c);

/// Memory of one device of a stage of a pipeline.
memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                      const pipeline_part& part);

/// Bytes of the moments of `owned` values in the device's memory: offloaded, those of a part at a time. On a host they
/// stay.
inline double bytes_of_moments(const layout& l, const cluster& c, double owned) {
  return 8 *
         (l.optimizer_offload && c.value_bytes != 4 ? std::min(owned, static_cast<double>(optim::most_staged)) : owned);
}

/// Whether training packs weights layer by layer (train::packs_units).
inline bool packs_units(const model_shape& m, const layout& l, const batches& b) {
  return l.zero < 3 && l.expert_parts() == 1 && l.stages() == 1 &&
         train::packs_units(static_cast<std::size_t>(b.tokens), long_pass_tokens, m.experts, m.experts_per_token);
}

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE layer_values::layer_values(const model_shape& m, bool divided_experts) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double attention = 2 * f(m.query_width()) + 2 * f(m.kv_width()), h = f(m.hidden_size);
  split = attention + (m.experts == 0 ? 3 * f(m.intermediate_size) : 0);
  whole = 3 * h;
  split_scratch = attention, whole_scratch = 2 * h;
  if (m.head_norms) split += f(m.query_width() + m.kv_width() + m.heads + m.kv_heads);
  if (m.experts == 0) return;
  const double copies = f(m.experts_per_token), width = f(m.intermediate_size);
  whole += copies * 3 * width;
  whole_scratch += copies * (h + width) + f(m.experts);  // of moe_activations::rows, which all layers share
  if (!divided_experts) return;
  whole += copies * (2 * h + 3 * width);  // of an expert_visit
  whole_scratch += copies * (h + width);
}

/// Sums that the tree over the leaves of a rank has at once.
inline double tree_levels(const layout& l, const batches& b) {
  return l.sums == reduction_kind::tree ? std::floor(std::log2(static_cast<double>(b.leaves))) : 0;
}

/// Bytes of gradients besides those of the state: leaves that are not cut yet, and their sums on the way to shards.
inline double bytes_of_sums(const model_shape& m, const layout& l, const batches& b, const pipeline_part& part) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const local_sizes local(m, l.tensor, l.expert_parts(), part);
  const double whole = local.total(), unit = local.layer + local.experts, ends = local.ends + local.tower;
  const bool together = l.zero < 2 && (l.sums == reduction_kind::ranked || l.sums == reduction_kind::fast);
  const bool visits = m.experts > 0 && l.expert > 1, divided = visits && l.expert_parts() > 1;
  // An expert's gradients for the rows of each other rank.
  const double own = local_sizes(m, l.tensor, l.expert, part).all_experts();
  const double of_others = visits && !together ? 4 * f(l.expert - 1) * own : 0;
  const double levels = tree_levels(l, b), owned = local.dense() / f(l.shards());
  if (l.zero == 3)  // a leaf of one micro-batch goes layer by layer
    return of_others + 4 * (b.micro > b.leaves || visits ? whole : std::max(unit + (m.tied ? ends : 0), ends));
  if (divided) {  // gradients are copied to the tree; that of experts has the leaves of every rank
    const double of_experts = l.expert_shard_ranks() > 1 ? own : 0;
    if (together)  // sums are lent
      return 4 * (l.zero == 1 ? owned + of_experts / f(l.expert_shard_ranks()) : local.dense() + of_experts);
    const bool cut = l.zero == 2 && l.expert_shard_ranks() > 1;  // then sums are in host memory
    const double ranks = std::log2(f(l.expert)), sums = l.sums != reduction_kind::tree ? 0
                                                        : l.zero == 2                  ? (cut ? 0 : levels + ranks)
                                                        : b.leaves > 1                 ? f(l.expert) * levels + 1
                                                                                       : ranks + 1;
    const double of_shards = l.zero == 1 ? owned + of_experts / f(l.expert_shard_ranks()) : 0;
    return of_others + 4 * (sums * own + of_shards + (l.zero == 2 ? whole : local.dense() * (levels + 1)));
  }
  if (l.zero == 2) return of_others + 4 * whole;
  // The last leaf adds to the tree as a whole, or unit by unit.
  const bool adds_by_units =
      levels > 0 && b.micro == b.leaves && l.stages() == 1 && l.tensor == 1 && !m.tower && !visits;
  const double sums = adds_by_units ? whole * (levels - 1) + unit + ends : whole * levels;
  const bool no_spare = l.zero == 0 && l.summed() > 1 && levels == 0;  // memory for the sum of all ranks
  return of_others + 4 * (sums + (l.zero == 1 && l.shards() > 1 ? whole / f(l.shards()) : no_spare ? whole : 0));
}

RLCORE_INLINE memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                                    const pipeline_part& part) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const local_sizes local(m, l.tensor, l.expert_parts(), part);
  const double packed = c.value_bytes, value = l.value_bytes(c);
  const double held = l.compute_type ? packed : value + packed;  // gathered, with the packed copy for matrix products
  const double dense = f(l.shards()), expert = f(l.expert_shard_ranks());
  const double shard = local.dense() / dense + local.all_experts() / expert, whole = local.total();
  const bool lora = w.lora_rank > 0, host = c.value_bytes == 4;
  const bool in_stages = l.stages() > 1;
  memory_need need;
  need.stage = part.stage;
  if (host) need.program = program_bytes;
  if (lora) {  // the weights, and as a copy those that adapters are merged into
    const double adapters = f(part.layers * m.adapter_parameters(w.lora_rank, l.tensor));
    const double owned = adapters / (l.zero >= 1 ? dense : 1);
    // Values and gradients are whole; passes have A packed, and B and its gradient by linear layer.
    need.state = 4 * (l.zero == 3 ? shard : whole) +
                 4 * f(part.layers * m.adapted_parameters(l.tensor)) / (l.zero == 3 ? dense : 1) + 8 * adapters +
                 bytes_of_moments(l, c, owned);
    need.state += packed * adapters + 8 * f(part.layers * m.adapter_blocks(w.lora_rank, l.tensor));
    // B A of one projection, or of what this rank has of it.
    const double product = f(m.hidden_size * std::max(m.intermediate_size, m.query_width())) / f(l.tensor);
    need.state += 4 * (l.zero == 3 ? std::min(product, (local.layer + local.experts) / dense) : product);
    need.gradients = 4 * adapters + (l.zero >= 1 ? 4 * owned : 0);  // of a leaf, and their sum
    if (l.zero < 2) need.gradients += 4 * adapters * tree_levels(l, b);
  } else {
    need.state = 4 * (l.zero == 3 ? shard : whole) + 4 * (l.zero >= 2 ? shard : whole) +
                 bytes_of_moments(l, c, l.zero >= 1 ? shard : whole);
    need.gradients = bytes_of_sums(m, l, b, part);
    need.released = l.zero < 2 ? 4 * whole : 0;
  }
  need.state += 4 * local.copy;
  if (w.reference != reference_form::none && !lora)  // that of LoRA is the model without its adapters
    need.reference = w.reference == reference_form::whole ? held * static_cast<double>(m.parameters())
                     : in_stages                          ? (4 + packed) * whole + 4 * local.copy
                     : l.zero == 3                        ? 4 * shard
                                                          : std::min(packed, m.stored_bytes) * whole;
  const double unit = local.layer + local.experts;
  if (packs_units(m, l, b)) {
    need.weights = packed * (unit + (m.tied ? 1 : 0.5) * local.ends + local.tower);
  } else if (l.zero < 3) {
    need.weights = packed * whole;
  } else {
    need.weights = held * (l.reshard_after_forward ? local.ends + local.tower + unit : whole);
  }
  // The last stage of a tied embedding keeps leaves until the first stage has sent the sums of their input rows.
  if (in_stages && m.tied && part.has_head() && sums_by_leaf(l) && !lora)
    need.gradients += 4 * whole * f(std::min(b.leaves - 1, (l.stages() - 1) * b.leaves / b.micro));
  if (part.copies_embedding(m) && !lora) need.gradients += 4 * embedding_rows(m, l, b) * f(m.hidden_size);

  const layer_values layer(m, m.experts > 0 && l.expert > 1);
  const double tokens = f(b.tokens), split = f(l.tensor);
  const auto of_tokens = [&](double in_parts, double whole_values) {
    return tokens * value * (in_parts / split + whole_values / (l.sequence_parallel ? split : 1));
  };
  const double one = of_tokens(layer.split, layer.whole), inputs = of_tokens(0, f((part.layers + 1) * m.hidden_size));
  need.activations =
      inputs + f(w.recompute ? 1 : part.layers) * one + of_tokens(layer.split_scratch, layer.whole_scratch);
  need.activations += value * f(b.micro_rows) * m.tower_values(f(w.image_tokens), w.recompute);
  if (l.how_context == context_kind::gather_kv && l.context > 1)  // gathered, with their gradients
    need.activations += tokens * f(l.context) * 2 * f(m.kv_width()) / split * (value + 4);
  const layer_values alone(m, false);  // a pass that scores has all experts of a layer
  const double shared = m.experts == 0 ? 0 : alone.whole_scratch - 2 * f(m.hidden_size);
  const double scoring =
      of_tokens(alone.split, alone.whole + 2 * f(m.hidden_size) + shared) / tokens * f(b.scored_tokens);
  if (in_stages) need.activations *= f(part.alive(b.micro));
  // Passes whose backward comes later have memory of their own beside that of scoring.
  if (!part.has_head() && (w.old_log_probs || w.reference != reference_form::none)) need.activations += scoring;
  if (in_stages && host)  // elsewhere they are in the host's memory
    need.messages = tokens / (l.sequence_parallel ? split : 1) * f(m.hidden_size) * value *
                    ((part.has_head() ? 0 : 1) + (part.has_embedding() ? 0 : 1));
  const double scored = f(b.micro_rows) * f(w.response_length) / f(l.context);
  const double logits = std::min(w.logits_bytes, scored * f(m.vocab_size) * 4 / split);
  need.logits = part.has_head() ? logits : 0;

  need.sampled_logits = w.samples ? logits : need.logits;
  need.passes = std::max(part.has_head() ? need.activations : 0, scoring) + need.sampled_logits;
  if (!w.samples) {
    need.rollout_weights = l.zero < 3 ? packed * whole : need.weights;
    return need;
  }
  const local_sizes rollout(m, l.rollout_tensor, l.rollout_expert_parts(m.experts));
  // The state already counts whole weights, but not their packed copy. Elsewhere a copy is packed alone, but for the
  // embedding's rows, and the floats of one unit are in host memory while it is filled.
  const bool in_place = l.samples_in_place();
  need.rollout_weights = packed * rollout.total();
  if (!in_place && packed < value) {
    const double rows = f(m.embedding_parameters()) / f(l.rollout_tensor);
    need.rollout_weights += value * rows - (m.tied ? 0 : packed * rows);
  }
  if (!in_place && host)  // and twice what is under way of it
    need.rollout_weights += 12 * std::max({rollout.layer + rollout.experts, rollout.ends, rollout.tower});
  const double per_token = m.kv_values() * value / f(std::min(l.rollout_tensor, m.kv_heads));
  need.cache_of_one = per_token * f(w.length());
  const double replicas = f(l.devices()) / f(l.rollout_tensor);
  const double wanted = per_token * f(w.length()) * std::ceil(f(w.sequences()) / replicas);
  const double left = c.memory * c.usable_share - need.least_sampling() + need.cache_of_one;
  need.cache = std::clamp(left, need.cache_of_one, std::max(wanted, need.cache_of_one));
  return need;
}

RLCORE_INLINE memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c) {
  memory_need busiest;
  double cache = 0;
  for (const pipeline_part& part : pipeline_parts(m, l)) {
    const memory_need need = memory_of(m, l, w, c, part);
    cache = part.has_embedding() ? need.cache : std::min(cache, need.cache);
    if (part.has_embedding() || need.peak() > busiest.peak()) busiest = need;
  }
  busiest.cache = cache;
  return busiest;
}

}  // namespace train::planning
RLCORE_END
#endif
