// Time of the stages of a step.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/pipeline/schedule.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/memory_need.hpp"
#include "rlcore/planning/model_shape.hpp"
#include "rlcore/planning/traffic.hpp"

RLCORE_BEGIN
namespace train::planning {

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

/// Seconds that the moments of `owned` offloaded parameters take to the device and back.
inline double offload_time(const cluster& c, const layout& l, double owned) {
  return l.optimizer_offload && c.value_bytes != 4 ? 16 * owned / c.host_bandwidth : 0;
}

/// 1F1B of many passes: the time, the mean share in which a stage waits, and the stage with the most work.
struct pipeline_seconds {
  double time = 0, idle = 0;
  std::int64_t slowest = 0;
};

/// The time that `passes` passes take if stage r needs forward[r] and backward[r] for each (parallel::simulate). Beyond
/// some passes for each stage, every further one takes as long as in the slowest stage.
pipeline_seconds pipeline_time(const std::vector<double>& forward, const std::vector<double>& backward,
                               std::int64_t passes);

/// Seconds of the stages of one step, with their parts.
struct stage_times {
  double weight_sync = 0, rollout = 0, old_log_probs = 0, reference = 0;
  double update = 0, update_compute = 0, update_hidden = 0, update_exposed = 0;  ///< overlappable or not
  double optimizer = 0;
  /// With stages of a pipeline the parts of `update` are those of `stage`, the busiest one: `update_waits` is its time
  /// without work, `idle` the mean share of 1F1B in which a stage waits.
  double update_waits = 0, idle = 0;
  std::int64_t stage = 0;
  double per_token = 0;       ///< seconds of one decode pass, on average
  std::int64_t together = 0;  ///< sequences that a copy of the weights samples together
  std::int64_t waves = 0;

  double step() const noexcept { return weight_sync + rollout + old_log_probs + reference + update; }
};

namespace detail {

/// The seconds of a pass that draws a token for `n` sequences with `past` tokens each.
double decode_pass(const model_shape& m, const layout& l, const cluster& c, double n, double past);

/// Fills in the times of updates and scoring, of ranks with all layers, and of the stages of a pipeline.
void pass_times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c, stage_times& t);
void pipeline_times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c, stage_times& t);

inline void sum_transfers(const cluster& c, const std::vector<transfer>& list, double& hidden, double& exposed) {
  for (const transfer& t : list) (t.hidden ? hidden : exposed) += t.calls * seconds(c, t.kind, t.group, t.bytes);
}

/// The time of computation beside these transfers.
inline double beside(const cluster& c, double compute, double hidden, double exposed) noexcept {
  return std::max(compute, c.overlap * hidden) + (1 - c.overlap) * hidden + exposed;
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
  double experts = 0;                                       // experts in use: all of them with enough sequences
  const double copies = l.expert_shards ? f(l.expert) : 1;  // number of groups whose sequences an expert serves
  const std::int64_t parts = l.rollout_expert_parts(m.experts);
  if (m.experts > 0)
    experts = f(m.layers) * f(m.expert_parameters()) * f(m.experts) / f(parts) *
              (1 - std::pow(1 - f(m.experts_per_token) / f(m.experts), n * copies));
  const double dense = static_cast<double>(m.parameters() - m.expert_parameters_of_all() - m.tower_parameters()) -
                       (m.tied ? 0.0 : static_cast<double>(m.embedding_parameters()));
  const double bytes =
      packed * (dense / split + experts) + n * past * m.kv_values() * value / std::min(split, f(m.kv_heads));
  const double operations =
      n * (2 * m.product_weights() + 2 * m.head_weights() + 4 * f(m.layers * m.query_width()) * past) / split;
  double exchange =
      2 * f(m.layers) * seconds(c, collective::all_reduce, {l.rollout_tensor, 1}, n * f(m.hidden_size) * value);
  if (m.experts > 0 && parts > 1 && !l.expert_shards)
    exchange += f(m.layers) * seconds(c, collective::all_gather, {l.rollout_tensor, 1},
                                      n * f(m.experts_per_token * m.hidden_size) * value);
  if (l.expert_shards && l.expert > 1)
    exchange += 2 * f(m.layers) *
                seconds(c, collective::all_to_all, {l.expert, l.rollout_tensor},
                        n * f(m.experts_per_token * m.hidden_size) * value);
  return std::max(bytes / (c.memory_bandwidth * c.decode_share), operations / (c.peak * c.scoring_share)) +
         f(m.layers) * c.layer_floor + exchange;
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE pipeline_seconds pipeline_time(const std::vector<double>& forward, const std::vector<double>& backward,
                                             std::int64_t passes) {
  const auto stages = std::ssize(forward);
  const auto at = [](const std::vector<double>& list, int stage) { return list[static_cast<std::size_t>(stage)]; };
  const auto few = std::min(passes, 4 * stages);
  pipeline_seconds out;
  out.time = parallel::simulate({.stages = static_cast<int>(stages), .passes = static_cast<int>(few)},
                                [&](int stage, const parallel::pipeline_action& a) {
                                  return at(a.forward ? forward : backward, stage);
                                })
                 .time;
  double sum = 0, most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const double each = at(forward, stage) + at(backward, stage);
    sum += each;
    if (each > most) most = each, out.slowest = stage;
  }
  out.time += static_cast<double>(passes - few) * most;
  if (out.time > 0) out.idle = 1 - static_cast<double>(passes) * sum / (out.time * static_cast<double>(stages));
  return out;
}

}  // namespace train::planning

namespace train::planning::detail {

RLCORE_INLINE void pipeline_times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                                     stage_times& t) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const double micro = f(b.micro), times = f(w.updates * w.epochs);
  // What a device computes of a micro-batch, without the padding of the last ones.
  const double share = f(b.rows) / f(b.micro * b.micro_rows) / f(l.context * l.tensor);
  struct update_work {
    double compute = 0, hidden = 0, exposed = 0, optimizer = 0, sums = 0;
  };
  std::vector<update_work> all;
  std::vector<double> forward, backward;
  double longest_sums = 0, scoring = 0, slowest_scoring = 0;
  for (const pipeline_part& part : pipeline_parts(m, l)) {
    model_shape layers = m;
    layers.layers = part.layers;
    const double scored = part.has_head() ? f(w.response_length) : 0;
    const pass_seconds pass = pass_time(c, layers, {f(b.micro_rows), f(w.length()), scored}, l.devices());
    const traffic sent(m, l, w, c, part);
    update_work work;
    const auto time_of = [&](double compute, const std::vector<transfer>& list) {
      double hidden = 0, exposed = 0;
      sum_transfers(c, list, hidden, exposed);
      work.compute += micro * compute, work.hidden += micro * hidden, work.exposed += micro * exposed;
      return beside(c, compute, hidden, exposed);
    };
    forward.push_back(time_of(share * pass.forward, sent.of_forward()));
    backward.push_back(time_of(share * (pass.backward + (w.recompute ? pass.layers_forward : 0)), sent.of_backward()));

    const local_sizes local(m, l.tensor, l.expert_parts(), part);
    const double trained =
        w.lora_rank > 0 ? f(part.layers * m.adapter_parameters(w.lora_rank, l.tensor)) : local.total();
    const double owned = l.zero == 0 ? trained
                         : w.lora_rank > 0
                             ? trained / f(l.shards())
                             : local.dense() / f(l.shards()) + local.all_experts() / f(l.expert_shard_ranks());
    work.optimizer =
        optimizer_time(c, owned, local.total(), trained * f(b.leaves - 1), l.devices()) + offload_time(c, l, owned);
    sum_transfers(c, sent.of_sums(), work.sums, work.sums);
    work.exposed += work.sums;
    longest_sums = std::max(longest_sums, work.sums + work.optimizer);
    all.push_back(work);

    double hidden = 0, exposed = 0;
    sum_transfers(c, sent.scoring(), hidden, exposed);
    if (l.collects_experts())  // every pass packs them
      exposed += optimizer_time(c, 0, local_sizes(m, l.tensor, l.scored_expert_parts(), part).total() * f(b.scored), 0,
                                l.devices());
    const double compute = micro * f(w.updates) * share * pass.forward * (c.training_share / c.scoring_share);
    const double each = beside(c, compute, hidden, exposed) / f(b.scored);
    scoring += each, slowest_scoring = std::max(slowest_scoring, each);
  }
  scoring += f(b.scored - 1) * slowest_scoring;  // forwards alone
  if (w.old_log_probs) t.old_log_probs = scoring;
  if (w.reference != reference_form::none) t.reference = scoring;

  const pipeline_seconds pipeline = pipeline_time(forward, backward, b.micro);
  const auto slowest = static_cast<std::size_t>(pipeline.slowest);
  const update_work& work = all[slowest];
  t.stage = pipeline.slowest, t.idle = pipeline.idle;
  t.update = times * (pipeline.time + longest_sums);
  t.update_compute = times * work.compute, t.update_hidden = times * work.hidden;
  t.update_exposed = times * work.exposed, t.optimizer = times * work.optimizer;
  t.update_waits = t.update - times * (micro * (forward[slowest] + backward[slowest]) + work.sums + work.optimizer);
}

RLCORE_INLINE void pass_times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                                 stage_times& t) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  const batches b(l, w);
  const traffic sent(m, l, w, c);
  const double parts = f(l.context * l.tensor);
  const pass_seconds pass =
      pass_time(c, m, {f(b.micro_rows), f(w.length()), f(w.response_length), f(w.image_tokens), parts}, l.devices());
  const double share = f(b.rows) / f(b.micro * b.micro_rows);  // padding of the last micro-batches
  const double passes = f(b.micro) * share / parts;
  const double scoring = passes * f(w.updates) * pass.forward * (c.training_share / c.scoring_share);
  const local_sizes local(m, l.tensor, l.expert_parts());
  const auto score = [&](bool whole) {
    double hidden = 0, exposed = 0;
    sum_transfers(c, sent.scoring(whole), hidden, exposed);
    // Every pass packs the gathered weights.
    if ((l.zero == 3 || l.collects_experts()) && !whole)
      exposed +=
          optimizer_time(c, 0, local_sizes(m, l.tensor, l.scored_expert_parts()).total() * f(b.scored), 0, l.devices());
    return beside(c, scoring, hidden, exposed);
  };
  if (w.old_log_probs) t.old_log_probs = score(false);
  if (w.reference != reference_form::none) t.reference = score(w.reference == reference_form::whole);

  t.update_compute =
      f(w.updates * w.epochs) * passes * (pass.forward + pass.backward + (w.recompute ? pass.layers_forward : 0));
  const double adapters = f(m.layers * m.adapter_parameters(w.lora_rank, l.tensor));
  const double owned = w.lora_rank > 0 ? adapters / (l.zero == 0 ? 1 : f(l.shards()))
                       : l.zero == 0 ? local.total()
                                     : local.dense() / f(l.shards()) + local.all_experts() / f(l.expert_shard_ranks());
  const bool each_pass = l.zero == 3 || packs_units(m, l, b);
  const double packed = local.total() * (each_pass ? f(b.micro) * (w.recompute ? 2 : 1) : 1),
               added = l.zero >= 2 ? 0 : (w.lora_rank > 0 ? adapters : local.total()) * f(b.leaves - 1);
  t.optimizer =
      f(w.updates * w.epochs) * (optimizer_time(c, owned, packed, added, l.devices()) + offload_time(c, l, owned));
  sum_transfers(c, sent.update(), t.update_hidden, t.update_exposed);
  t.update = beside(c, t.update_compute, t.update_hidden, t.update_exposed) + t.optimizer;
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE stage_times times_of(const model_shape& m, const layout& l, const workload& w, const cluster& c,
                                   const memory_need& need) {
  const auto f = [](std::int64_t n) { return static_cast<double>(n); };
  stage_times t;
  if (l.stages() > 1)
    detail::pipeline_times_of(m, l, w, c, t);
  else
    detail::pass_times_of(m, l, w, c, t);
  if (!w.samples) return t;
  double ignored = 0;
  detail::sum_transfers(c, traffic(m, l, w, c).weight_sync(), ignored, t.weight_sync);
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
