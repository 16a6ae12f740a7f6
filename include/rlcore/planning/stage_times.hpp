// The seconds of a step, stage by stage.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/planning/compute_time.hpp"
#include "rlcore/planning/memory.hpp"
#include "rlcore/planning/traffic.hpp"

RLCORE_BEGIN
namespace trainer::planning {

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

}  // namespace trainer::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace trainer::planning::detail {

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
  const double bytes = packed * (dense / split + experts) + n * past * m.kv_values() * value / split;
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

}  // namespace trainer::planning::detail

namespace trainer::planning {

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

  detail::sum_transfers(c, sent.weight_sync(), ignored, t.weight_sync);
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
  const double owned =
      l.zero == 0 ? local.total() : local.dense() / f(l.shards()) + local.all_experts() / f(l.expert_shard_ranks());
  const double packed = local.total() * (l.zero == 3 ? f(b.micro) : 1),
               added = l.zero >= 2 ? 0 : local.total() * f(b.leaves - 1);
  t.optimizer = f(w.updates * w.epochs) * optimizer_time(c, owned, packed, added, l.devices());
  detail::sum_transfers(c, sent.update(), t.update_hidden, t.update_exposed);
  t.update = std::max(t.update_compute, c.overlap * t.update_hidden) + (1 - c.overlap) * t.update_hidden +
             t.update_exposed + t.optimizer;

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

}  // namespace trainer::planning
RLCORE_END
#endif
