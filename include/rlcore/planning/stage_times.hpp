// Time and memory of the stages of a step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/traffic.hpp"
#include "rlcore/train/model/leaf_plan.hpp"

RLCORE_BEGIN
namespace train::planning {

/// Bytes of a program with a tokenizer and some thousand rows.
inline constexpr double program_bytes = 110 << 20;

/// Bytes of one device. Training alternates with sampling or evaluation, which keeps the memory of training's passes.
struct memory_need {
  double program = 0;    ///< on a host: code, tokenizer and rows
  double state = 0;      ///< this rank's share of float weights, gradients and both moments
  double released = 0;   ///< of these: gradients that are freed while sampling or evaluating
  double reference = 0;  ///< the reference model
  double weights = 0;    ///< training: gathered layers, or the packed copy of all or of some for matrix products
  double gradients = 0;  ///< of layers in transit to their owners, if sharded, or of leaves that wait for their sum
  double activations = 0;
  double logits = 0;
  double rollout_weights = 0;  ///< of sampling or evaluation
  double passes = 0;           ///< sampling or evaluation: activations and logits, no less than in training
  double cache = 0;            ///< KV cache of the sequences that a device samples together
  double cache_of_one = 0;     ///< one device's part of the longest sequence

  double training() const noexcept { return program + state + reference + weights + gradients + activations + logits; }
  double sampling() const noexcept { return program + state - released + reference + rollout_weights + cache + passes; }
  double least_sampling() const noexcept { return sampling() - cache + cache_of_one; }
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

/// One micro-batch: `rows` sequences of `length` tokens, `scored` of each with log-probs.
struct pass_shape {
  double rows = 1, length = 0, scored = 0;
  double image_tokens = 0;  ///< per sequence, of one image
  double towers = 1;        ///< number of ranks that compute the rows of the same image
};

/// Seconds forward, and backward without the forward that recomputation repeats.
struct pass_seconds {
  double forward = 0, backward = 0, layers_forward = 0;
};

namespace detail {

struct product_sizes {
  double outputs, inputs, copies;  ///< copies: how many a token passes through
};

pass_seconds measured_pass(const measured_rank& t, const model_shape& m, const pass_shape& p);

}  // namespace detail

/// `ranks` devices work at the same time (on a measured machine they share memory and caches).
pass_seconds pass_time(const cluster& c, const model_shape& m, const pass_shape& p, std::int64_t ranks);

/// Seconds of the work done once per update: clipping and AdamW over `owned` parameters of one rank, 32 bytes of memory
/// traffic each; packing the `used` parameters that it computes with; summing `added` values of leaves' gradients.
inline double optimizer_time(const cluster& c, double owned, double used, double added, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks))
    return owned / t->optimizer + owned / t->norm + used / t->pack + added / t->add;
  return (32 * owned + (4 + c.value_bytes) * used + 12 * added) / (c.memory_bandwidth * c.decode_share);
}

/// Seconds of the stages of one step, with their parts.
struct stage_times {
  double weight_sync = 0, rollout = 0, old_log_probs = 0, reference = 0;
  double update = 0, update_compute = 0, update_hidden = 0, update_exposed = 0;  ///< overlappable or not
  double optimizer = 0;
  double per_token = 0;       ///< seconds of one decode pass, on average
  std::int64_t together = 0;  ///< sequences that a copy of the weights samples together
  std::int64_t waves = 0;

  double step() const noexcept { return weight_sync + rollout + old_log_probs + reference + update; }
};

namespace detail {

/// The seconds of a pass that draws a token for `n` sequences with `past` tokens each.
double decode_pass(const model_shape& m, const layout& l, const cluster& c, double n, double past);

inline void sum_transfers(const cluster& c, const std::vector<transfer>& list, double& hidden, double& exposed) {
  for (const transfer& t : list) (t.hidden ? hidden : exposed) += t.calls * seconds(c, t.kind, t.group, t.bytes);
}

}  // namespace detail

/// The times of one step `w` of model `m` under layout `l`; `need` is the result of memory_of(); it limits the
/// sequences sampled together.
stage_times times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                     const memory_need& need);

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE layer_values::layer_values(const model_shape& m) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double copies = m.experts == 0 ? 1 : f(m.experts_per_token);
  split = 2 * f(m.query_width()) + 2 * f(m.kv_width()) + 3 * copies * f(m.intermediate_size);
  whole = 4 * f(m.hidden_size) + (m.experts == 0 ? 0 : 2 * copies * f(m.hidden_size));
}

/// Whether training packs weights layer by layer (train::packs_units).
inline bool packs_units(const model_shape& m, const layout& l, const batches& b) {
  return l.zero < 3 && l.expert_parts() == 1 &&
         train::packs_units(static_cast<std::size_t>(b.tokens), long_pass_tokens, m.experts, m.experts_per_token);
}

RLCORE_INLINE memory_need memory_of(const model_shape& m, const layout& l, const workload& w, const cluster& c) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const local_sizes local(m, l.tensor, l.expert_parts());
  const double packed = c.value_bytes, value = l.value_bytes(c);
  const double held = l.compute_type ? packed : value + packed;  // gathered, with the packed copy for matrix products
  const double dense = f(l.shards()), expert = f(l.expert_shard_ranks());
  const double shard = local.dense() / dense + local.all_experts() / expert, whole = local.total();
  const bool lora = w.lora_rank > 0, host = c.value_bytes == 4;
  memory_need need;
  if (host) need.program = program_bytes;
  if (lora) {  // the weights, and as a copy those that adapters are merged into
    const double adapters = f(m.layers) * f(m.adapter_parameters(w.lora_rank)) / f(l.tensor);
    need.state = 4 * (l.zero == 3 ? shard : whole) + 4 * f(m.layers) * f(m.adapted_parameters()) / f(l.tensor) +
                 16 * adapters / (l.zero >= 1 ? dense : 1);
  } else {
    need.state =
        4 * (l.zero == 3 ? shard : whole) + 4 * (l.zero >= 2 ? shard : whole) + 8 * (l.zero >= 1 ? shard : whole);
  }
  if (w.reference != reference_form::none && !lora)  // that of LoRA is the model without its adapters
    need.reference = w.reference == reference_form::whole ? held * static_cast<double>(m.parameters())
                     : l.zero == 3                        ? 4 * shard
                                                          : std::min(packed, m.stored_bytes) * whole;
  const double unit = local.layer + local.experts;
  if (packs_units(m, l, b)) {
    need.weights = packed * (unit + (m.tied ? 1 : 0.5) * local.ends + local.tower);
  } else if (l.zero < 3) {
    need.weights = packed * whole;
  } else {
    need.weights = held * (l.reshard_after_forward ? local.ends + local.tower + 2 * unit : whole);
  }
  // A leaf's gradient is complete after its last micro-batch, and is sharded then. With zero 3 and a leaf of one
  // micro-batch it goes layer by layer.
  if (l.zero >= 2 && !lora)
    need.gradients = 4 * (l.zero == 2 || b.micro > b.leaves ? whole : 2 * std::max(unit, local.ends + local.tower));

  if (l.zero < 2 && !lora) {
    need.released = 4 * whole;
    // The tree over this rank's leaves holds a sum per level; the last leaf adds to them as a whole, or unit by unit.
    const bool tree = l.sums == reduction_kind::tree && b.leaves > 1;
    const double levels = tree ? std::floor(std::log2(f(b.leaves))) : 0;
    const bool adds_by_units = tree && b.micro == b.leaves;
    need.gradients = adds_by_units ? 4 * (whole * (levels - 1) + unit + local.ends + local.tower) : 4 * whole * levels;
  }

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
  const double scored = f(b.micro_rows) * f(w.response_length) / f(l.context);
  need.logits = std::min(w.logits_bytes, scored * f(m.vocab_size) * 4 / split);

  need.passes = std::max(need.activations, 2 * one / tokens * f(b.scored_tokens)) + need.logits;
  if (!w.samples) {
    need.rollout_weights = l.zero < 3 ? packed * whole : need.weights;
    return need;
  }
  const local_sizes rollout(m, l.rollout_tensor, l.sampled_expert_parts());
  // The state already counts whole weights, but not their packed copy.
  const bool in_place = l.zero < 3 && l.rollout_tensor == l.tensor && !l.collects_experts();
  need.rollout_weights = (in_place ? packed : held) * rollout.total();
  const double per_token = m.kv_values() * value / f(std::min(l.rollout_tensor, m.kv_heads));
  need.cache_of_one = per_token * f(w.length());
  const double replicas = f(l.devices()) / f(l.rollout_tensor);
  const double wanted = per_token * f(w.length()) * std::ceil(f(w.sequences()) / replicas);
  const double left = c.memory * c.usable_share - need.least_sampling() + need.cache_of_one;
  need.cache = std::clamp(left, need.cache_of_one, std::max(wanted, need.cache_of_one));
  return need;
}

}  // namespace train::planning

namespace train::planning::detail {

RLCORE_INLINE pass_seconds measured_pass(const measured_rank& t, const model_shape& m, const pass_shape& p) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const double tokens = p.rows * p.length, scored = p.rows * p.scored, layers = f(m.layers), h = f(m.hidden_size);
  const double copies = m.experts == 0 ? 1 : f(m.experts_per_token);
  const product_sizes products[] = {{f(m.query_width() + 2 * m.kv_width()), h, 1},
                                    {h, f(m.query_width()), 1},
                                    {2 * f(m.intermediate_size), h, copies},
                                    {h, f(m.intermediate_size), copies}};
  pass_seconds s;
  // The share of the weights evicted from the caches between two passes: from 4 MB to 96 MB.
  const double floats = 4 * static_cast<double>(m.parameters());
  const double cold = std::clamp(std::log(floats / 4e6) / std::log(96.0 / 4), 0.0, 1.0);
  const auto rate = [&](const surface& warm, const surface& far_away, double rows, double width) {
    return std::exp((1 - cold) * std::log(warm.held(rows, width)) + cold * std::log(far_away.held(rows, width)));
  };
  const auto product = [&](const product_sizes& x, double rows, double times) {
    const double operations = 2 * x.outputs * x.inputs * x.copies * rows * times;
    const double width = std::sqrt(x.outputs * x.inputs);
    s.forward += operations / rate(t.forward, t.cold_forward, rows, width);
    s.backward += operations / rate(t.backward_x, t.cold_backward_x, rows, width) +
                  operations / rate(t.backward_w, t.cold_backward_w, rows, width);
  };
  for (const product_sizes& x : products) product(x, tokens, layers);
  const double attention = p.rows * m.attention_operations(p.length);
  s.forward += attention / t.attention_forward.held(p.length);
  s.backward += 2.5 * attention / t.attention_backward.held(p.length);
  const double q = f(m.query_width()), kv = f(m.kv_width()), inter = copies * f(m.intermediate_size);
  const double norms = m.head_norms ? 1 + (q + kv) / (2 * h) : 1;  // per layer: two row norms, and the head norms
  s.forward += layers * tokens *
               (norms * h / t.norm_forward.held(tokens * h) + inter / t.gate_forward.held(tokens * inter) +
                (q + kv) / t.rotate.held(tokens * (q + kv)));
  s.backward += layers * tokens *
                (norms * h / t.norm_backward.held(tokens * h) + inter / t.gate_backward.held(tokens * inter) +
                 (q + kv) / t.rotate.held(tokens * (q + kv)));
  if (p.image_tokens > 0) {
    const double width = f(m.tower->hidden_size), rows = p.image_tokens * f(m.tower->merged());
    const double operations = p.rows * p.towers * m.tower_operations(p.image_tokens);
    s.forward += operations / rate(t.forward, t.cold_forward, rows, width);
    s.backward += operations / rate(t.backward_x, t.cold_backward_x, rows, width) +
                  operations / rate(t.backward_w, t.cold_backward_w, rows, width);
  }
  s.layers_forward = s.forward;
  product({f(m.vocab_size), h, 1}, scored, 1);
  s.forward += scored * f(m.vocab_size) / t.head;
  s.backward += scored * f(m.vocab_size) / t.head_backward;
  return s;
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE pass_seconds pass_time(const cluster& c, const model_shape& m, const pass_shape& p, std::int64_t ranks) {
  if (const measured_rank* t = c.table(ranks)) return detail::measured_pass(*t, m, p);
  const double rate = c.peak * c.training_share;
  const double tower = p.towers * m.tower_operations(p.image_tokens);
  const double forward = p.rows * (m.forward_operations(p.length, p.scored) + tower);
  const double layers = p.rows * (m.forward_operations(p.length, 0) + tower);
  return {forward / rate, 2 * forward / rate, layers / rate};
}

}  // namespace train::planning

namespace train::planning::detail {

RLCORE_INLINE double decode_pass(const model_shape& m, const layout& l, const cluster& c, double n, double past) {
  const auto f = [](std::int64_t x) { return static_cast<double>(x); };
  const double packed = c.value_bytes, value = l.value_bytes(c), split = f(l.rollout_tensor);
  double experts = 0;                                 // experts in use: all of them with enough sequences
  const double copies = f(l.sampled_expert_parts());  // number of ranks whose sequences an expert serves
  if (m.experts > 0)
    experts = f(m.layers) * f(m.expert_parameters()) * f(m.experts) / copies *
              (1 - std::pow(1 - f(m.experts_per_token) / f(m.experts), n * copies));
  const double dense = static_cast<double>(m.parameters() - m.expert_parameters_of_all() - m.tower_parameters()) -
                       (m.tied ? 0.0 : static_cast<double>(m.embedding_parameters()));
  const double bytes =
      packed * (dense / split + experts) + n * past * m.kv_values() * value / std::min(split, f(m.kv_heads));
  const double operations =
      n * (2 * m.product_weights() + 2 * m.head_weights() + 4 * f(m.layers * m.query_width()) * past) / split;
  double exchange =
      2 * f(m.layers) * seconds(c, collective::all_reduce, {l.rollout_tensor, 1}, n * f(m.hidden_size) * value);
  if (l.sampled_expert_parts() > 1)
    exchange += 2 * f(m.layers) *
                seconds(c, collective::all_to_all, {l.expert, l.rollout_tensor},
                        n * f(m.experts_per_token * m.hidden_size) * value);
  return std::max(bytes / (c.memory_bandwidth * c.decode_share), operations / (c.peak * c.scoring_share)) +
         f(m.layers) * c.layer_floor + exchange;
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE stage_times times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                                   const memory_need& need) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const traffic sent(m, l, w, c);
  const double parts = f(l.context * l.tensor);
  stage_times t;

  const pass_seconds pass =
      pass_time(c, m, {f(b.micro_rows), f(w.length()), f(w.response_length), f(w.image_tokens), parts}, l.devices());
  const double share = f(b.rows) / f(b.micro * b.micro_rows);  // padding of the last micro-batches
  const double passes = f(b.micro) * share / parts;
  double ignored = 0;

  if (w.samples) detail::sum_transfers(c, sent.weight_sync(), ignored, t.weight_sync);
  const double scoring = passes * f(w.updates) * pass.forward * (c.training_share / c.scoring_share);
  const local_sizes local(m, l.tensor, l.expert_parts());
  const auto score = [&](bool whole) {
    double hidden = 0, exposed = 0;
    detail::sum_transfers(c, sent.scoring(whole), hidden, exposed);
    // Every pass packs the gathered weights.
    if ((l.zero == 3 || l.collects_experts()) && !whole)
      exposed += optimizer_time(c, 0, local_sizes(m, l.tensor, l.sampled_expert_parts()).total() * f(b.scored), 0,
                                l.devices());
    return std::max(scoring, c.overlap * hidden) + (1 - c.overlap) * hidden + exposed;
  };
  if (w.old_log_probs) t.old_log_probs = score(false);
  if (w.reference != reference_form::none) t.reference = score(w.reference == reference_form::whole);

  t.update_compute =
      f(w.updates * w.epochs) * passes * (pass.forward + pass.backward + (w.recompute ? pass.layers_forward : 0));
  const double adapters = f(m.layers * m.adapter_parameters(w.lora_rank)) / f(l.tensor);
  const double owned = w.lora_rank > 0 ? adapters / (l.zero == 0 ? 1 : f(l.shards()))
                       : l.zero == 0 ? local.total()
                                     : local.dense() / f(l.shards()) + local.all_experts() / f(l.expert_shard_ranks());
  const bool each_pass = l.zero == 3 || packs_units(m, l, b);
  const double packed = local.total() * (each_pass ? f(b.micro) * (w.recompute ? 2 : 1) : 1),
               added = l.zero >= 2 ? 0 : (w.lora_rank > 0 ? adapters : local.total()) * f(b.leaves - 1);
  t.optimizer = f(w.updates * w.epochs) * optimizer_time(c, owned, packed, added, l.devices());
  detail::sum_transfers(c, sent.update(), t.update_hidden, t.update_exposed);
  t.update = std::max(t.update_compute, c.overlap * t.update_hidden) + (1 - c.overlap) * t.update_hidden +
             t.update_exposed + t.optimizer;

  if (!w.samples) return t;
  const double replicas = f(l.devices()) / f(l.rollout_tensor);
  const double each = std::ceil(f(w.sequences()) / replicas);
  t.together = std::clamp<std::int64_t>(static_cast<std::int64_t>(need.cache / need.cache_of_one), 1,
                                        static_cast<std::int64_t>(each));
  t.waves = static_cast<std::int64_t>(std::ceil(each / f(t.together)));
  const double in_a_wave = std::min(each, f(t.together));
  t.per_token = detail::decode_pass(m, l, c, in_a_wave, f(w.prompt_length) + f(w.response_length) / 2);
  const double prompts = std::ceil(f(w.prompts) / replicas);
  const pass_seconds prefill =
      pass_time(c, m, {1, f(w.prompt_length), 0, f(w.image_tokens), f(l.rollout_tensor)}, l.devices());
  t.rollout = f(t.waves) * f(w.response_length) * t.per_token + prompts * prefill.forward / f(l.rollout_tensor);
  return t;
}

}  // namespace train::planning
RLCORE_END
#endif
