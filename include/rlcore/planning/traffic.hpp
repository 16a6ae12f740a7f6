// Bytes that ranks exchange in a step, and their time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/layout.hpp"
#include "rlcore/planning/model_shape.hpp"

RLCORE_BEGIN
namespace train::planning {

/// n bytes are the whole result of an all_gather, and the data of each rank otherwise. reduce_scatter sums in the
/// network; ordered_sum is an all_to_all and a local sum in a fixed order; shift sends to the next rank.
enum class collective { all_gather, reduce_scatter, all_reduce, all_to_all, ordered_sum, shift };

/// `size` ranks, each `stride` devices after the one before.
struct rank_group {
  std::int64_t size = 1, stride = 1;
};

/// The bytes that a rank sends to others for a collective of n bytes, on average over the group.
inline double sent_bytes(collective kind, const rank_group& g, double n) noexcept {
  const double share = g.size == 1 ? 0 : static_cast<double>(g.size - 1) / static_cast<double>(g.size);
  if (kind == collective::shift) return g.size == 1 ? 0 : n;
  return (kind == collective::all_reduce ? 2 : 1) * share * n;
}

/// The seconds of a collective of n bytes. It is hierarchical where the sum or its order permits: inside the node,
/// across nodes, inside again. all_to_all and ordered_sum send each piece straight to its rank. A step costs the
/// latency of its level.
double seconds(const cluster& c, collective kind, const rank_group& g, double n);

/// `calls` collectives of `bytes` each, counted as `collective` says. A `hidden` one may run while layers compute.
struct transfer {
  std::string name;
  collective kind = collective::all_gather;
  rank_group group;
  double bytes = 0, calls = 0;
  bool hidden = false;

  double sent() const noexcept { return calls * sent_bytes(kind, group, bytes); }
};

/// Is the gradient of each leaf taken separately (parallel::gradient_sums::by_leaf)?
inline bool sums_by_leaf(const layout& l) noexcept {
  return l.zero >= 2 || (l.sums != reduction_kind::ranked && l.sums != reduction_kind::fast);
}

/// The rows of a tied embedding's part that the input tokens of a leaf have, at most: the first stage has a sum for
/// each.
inline double embedding_rows(const model_shape& m, const layout& l, const batches& b) noexcept {
  const std::int64_t passes = sums_by_leaf(l) ? b.micro / b.leaves : b.micro;
  return static_cast<double>(std::min(m.vocab_size, passes * b.tokens)) / static_cast<double>(l.tensor);
}

/// Communication of a device of a layout in one step, by stage.
class traffic {
 public:
  /// All four arguments must outlive this object.
  traffic(const model_shape& m, const layout& l, const workload& w, const cluster& c)
      : traffic(m, l, w, c, {0, 1, m.layers}) {}
  /// Of a device of a stage of a pipeline.
  traffic(const model_shape& m, const layout& l, const workload& w, const cluster& c, const pipeline_part& part)
      : m_(m), l_(l), w_(w), c_(c), part_(part), b_(l, w), local_(m, l.tensor, l.expert_parts(), part) {}

  /// The transfers of all updates of a step.
  std::vector<transfer> update() const;
  /// Those of one micro-batch, forward, or backward with the forward that recomputation repeats, and those of one
  /// update besides.
  std::vector<transfer> of_forward() const;
  std::vector<transfer> of_backward() const;
  std::vector<transfer> of_sums() const;
  /// The transfers of a stage that only scores a step's sequences. Its model is sharded like the trained one, or
  /// `whole`.
  std::vector<transfer> scoring(bool whole = false) const;
  /// The transfers from the shards or parts of training to the weights of sampling.
  std::vector<transfer> weight_sync() const;

 private:
  static double f(std::int64_t n) noexcept { return static_cast<double>(n); }
  /// The ranks with the same place in each stage: stage is the slowest axis.
  rank_group stage_group() const noexcept { return {l_.stages(), l_.devices_of_stage()}; }
  rank_group dense_group() const noexcept { return {l_.zero == 0 ? l_.summed() : l_.shards(), l_.tensor}; }
  rank_group replica_group() const noexcept { return {l_.replicas(), l_.tensor * l_.shards()}; }
  rank_group expert_group() const noexcept {
    return {l_.zero == 0 ? l_.summed() / l_.expert_parts() : l_.expert_shard_ranks(), l_.tensor * l_.expert_parts()};
  }

  static void add(std::vector<transfer>& out, transfer t) {
    if (t.group.size > 1 && t.bytes > 0 && t.calls > 0) out.push_back(std::move(t));
  }
  /// Adds one call for each unit of the model: the layers, and the embedding with the head.
  void units(std::vector<transfer>& out, const std::string& name, collective kind, double value, double times,
             bool hidden) const {
    add(out, {name, kind, dense_group(), local_.layer * value, times * f(local_.layers), hidden});
    add(out, {name + " (ends)", kind, dense_group(), local_.ends * value, times, hidden});
    add(out, {name + " (experts)", kind, expert_group(), local_.experts * value, times * f(local_.layers), hidden});
  }
  /// Rows of a micro-batch that a device has between two layers.
  double own_tokens() const noexcept { return f(b_.tokens) / (l_.sequence_parallel ? f(l_.tensor) : 1); }
  double weight_bytes() const noexcept { return l_.value_bytes(c_); }
  void gather_all(std::vector<transfer>& out, const std::string& name) const;
  /// Collects every rank's experts on all ranks of the group, layer by layer.
  void collect_experts(std::vector<transfer>& out, double times, bool hidden) const;
  /// Gathers the layers `times` times in a pass. The head and a separate embedding are gathered once, a tied embedding
  /// at the begin and at the end.
  void gather_units(std::vector<transfer>& out, double passes, double times) const;
  void weights_and_gradients(std::vector<transfer>& out, double times) const;
  /// The exchanges of layers in `passes` passes over a micro-batch of `tokens` tokens of a device.
  void passes(std::vector<transfer>& out, const std::string& when, double passes, double tokens, bool backward) const;
  /// What a stage sends to the next one for each pass over `tokens` tokens of a device, or to the one before.
  void hidden_states(std::vector<transfer>& out, double passes, double tokens) const;
  void hidden_gradients(std::vector<transfer>& out, double passes, double tokens) const;
  /// What stages exchange once in an update: the norm, and a tied embedding's rows and new values.
  void between_stages(std::vector<transfer>& out, double times) const;

  const model_shape& m_;
  const layout& l_;
  const workload& w_;
  const cluster& c_;
  pipeline_part part_;
  batches b_;
  local_sizes local_;
};

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE double seconds(const cluster& c, collective kind, const rank_group& g, double n) {
  if (g.size <= 1 || n <= 0) return 0;
  const auto f = [](std::int64_t x) { return static_cast<double>(x); };
  if (const measured_rank* table = c.table(g.size); table != nullptr && table->ranks > 1) {
    const double same = f(g.size - 1) / f(g.size) * f(table->ranks) / f(table->ranks - 1);
    const curve &gather = table->all_gather, &sum = table->ordered_sum;
    if (!gather.empty() && !sum.empty()) {
      if (kind == collective::shift) return gather.at(n * f(table->ranks) / f(table->ranks - 1));
      if (kind == collective::all_reduce) return gather.at(n * same) + sum.at(n * same);
      return (kind == collective::all_gather || kind == collective::all_to_all ? gather : sum).at(n * same);
    }
  }
  const std::int64_t inside = std::clamp<std::int64_t>(c.devices_per_node / g.stride, 1, g.size);
  const double near_by = f(inside), across = f(g.size) / near_by;  // devices of a node, nodes
  const double link = c.inside(inside), net = c.network_bandwidth;
  const double local_latency = c.node_latency * std::ceil(std::log2(near_by));
  const double net_latency = across > 1 ? c.network_latency * std::ceil(std::log2(across)) : 0;
  const double one_way =
      local_latency + net_latency + n * (near_by - 1) / near_by / link + n / near_by * (across - 1) / across / net;
  const double straight =
      local_latency + net_latency + n * (near_by - 1) / f(g.size) / link + n * (f(g.size) - near_by) / f(g.size) / net;
  const double local_sum = 1.5 * n / c.memory_bandwidth;  // read all, write one part
  switch (kind) {
    case collective::all_gather:
      return one_way;
    case collective::reduce_scatter:
      return one_way + local_sum;
    case collective::all_reduce:
      return 2 * one_way + local_sum;
    case collective::all_to_all:
      return straight;
    case collective::ordered_sum:
      return straight + local_sum;
    case collective::shift:
      return across > 1 ? c.network_latency + n / net : c.node_latency + n / c.inside(2);
  }
  return 0;
}

RLCORE_INLINE std::vector<transfer> traffic::update() const {
  std::vector<transfer> out;
  const double times = f(w_.updates * w_.epochs), micro = f(b_.micro);
  weights_and_gradients(out, times);
  passes(out, "forward", times * micro * (w_.recompute ? 2 : 1), f(b_.tokens), false);
  passes(out, "backward", times * micro, f(b_.tokens), true);
  hidden_states(out, times * micro, own_tokens());
  hidden_gradients(out, times * micro, own_tokens());
  between_stages(out, times);
  return out;
}

RLCORE_INLINE std::vector<transfer> traffic::of_forward() const {
  std::vector<transfer> out;
  passes(out, "forward", 1, f(b_.tokens), false);
  hidden_states(out, 1, own_tokens());
  return out;
}

RLCORE_INLINE std::vector<transfer> traffic::of_backward() const {
  std::vector<transfer> out;
  if (w_.recompute) passes(out, "forward", 1, f(b_.tokens), false);
  passes(out, "backward", 1, f(b_.tokens), true);
  hidden_gradients(out, 1, own_tokens());
  return out;
}

RLCORE_INLINE std::vector<transfer> traffic::of_sums() const {
  std::vector<transfer> out;
  weights_and_gradients(out, 1);
  between_stages(out, 1);
  return out;
}

RLCORE_INLINE std::vector<transfer> traffic::scoring(bool whole) const {
  std::vector<transfer> out;
  if (l_.zero == 3 && !whole) {
    gather_units(out, f(b_.scored), 1);
    add(out, {"number of passes", collective::all_gather, dense_group(), 8 * f(dense_group().size), 1, false});
  }
  if (l_.collects_experts() && !whole) {
    collect_experts(out, f(b_.scored), true);
    add(out, {"number of passes", collective::all_gather, {l_.expert, l_.tensor}, 8 * f(l_.expert), 1, false});
  }
  passes(out, "forward", f(b_.scored), f(b_.scored_tokens), false);
  hidden_states(out, f(b_.scored), f(b_.scored_tokens));
  return out;
}

RLCORE_INLINE std::vector<transfer> traffic::weight_sync() const {
  std::vector<transfer> out;
  if (l_.stages() > 1 || l_.collects_experts()) {  // each value comes straight from a rank that has it
    const double all = local_sizes(m_, l_.rollout_tensor, l_.rollout_expert_parts(m_.experts)).total() * weight_bytes();
    if (l_.stages() > 1 && l_.rollout_tensor == l_.tensor && m_.experts == 0)
      add(out, {"weights of all stages", collective::all_gather, stage_group(), all, 1, false});
    else
      add(out, {"weights for sampling", collective::all_to_all, {l_.devices(), 1}, all, 1, false});
  } else if (l_.zero == 3 || (l_.tensor > 1 && l_.rollout_tensor != l_.tensor)) {
    gather_all(out, "weights for sampling");
  }
  return out;
}

RLCORE_INLINE void traffic::gather_all(std::vector<transfer>& out, const std::string& name) const {
  const local_sizes wanted(m_, l_.rollout_tensor, l_.rollout_expert_parts(m_.experts));
  add(out, {name, collective::all_gather, dense_group(), wanted.dense() * weight_bytes(), 1, false});
  add(out,
      {name + " (experts)", collective::all_gather, expert_group(), wanted.all_experts() * weight_bytes(), 1, false});
}

RLCORE_INLINE void traffic::collect_experts(std::vector<transfer>& out, double times, bool hidden) const {
  add(out, {"experts of all",
            collective::all_gather,
            {l_.expert, l_.tensor},
            local_.experts * f(l_.expert) * weight_bytes(),
            times * f(local_.layers),
            hidden});
}

RLCORE_INLINE void traffic::gather_units(std::vector<transfer>& out, double passes, double times) const {
  const double value = weight_bytes(), layers = f(local_.layers);
  const double norm = f(m_.hidden_size) / f(l_.tensor), embedding = local_.ends - norm;
  const auto gather = [&](const char* name, const rank_group& g, double parameters, double calls) {
    add(out, {name, collective::all_gather, g, parameters * value, passes * calls, true});
  };
  gather("weights of layers", dense_group(), local_.layer, layers * times);
  gather(m_.tied ? "weights (embedding)" : "weights (ends)", dense_group(), m_.tied ? embedding : local_.ends,
         m_.tied ? 2 : 1);
  if (m_.tower) gather("weights (vision tower)", dense_group(), local_.tower, 1);
  if (m_.tied) gather("weights (last norm)", dense_group(), norm, 1);
  gather("weights of experts", expert_group(), local_.experts, layers * times);
}

RLCORE_INLINE void traffic::weights_and_gradients(std::vector<transfer>& out, double times) const {
  const double leaves = f(b_.leaves);
  // exact: leaves sharded at once are sent as floats, sums of leaves as 64-bit integers.
  const bool exact = l_.sums == reduction_kind::exact;
  const double leaf = l_.wire_bf16 ? 2 : 4, sum_of_leaves = exact ? 8 : leaf;
  const collective sum = l_.sums == reduction_kind::fast ? collective::reduce_scatter : collective::ordered_sum;
  // Gathered once for the forward and once for the backward, unless kept.
  if (l_.zero == 3) gather_units(out, times * f(b_.micro), l_.reshard_after_forward ? 2 : 1);
  if (w_.lora_rank > 0) {
    const double adapters = f(part_.layers * m_.adapter_parameters(w_.lora_rank, l_.tensor));
    add(out, {"gradients of adapters", sum, dense_group(), adapters * leaf, times, false});
    add(out, {"adapters", collective::all_gather, dense_group(), adapters * 4, times, false});
    return;
  }
  units(out, "gradients", sum, l_.zero >= 2 ? leaf : sum_of_leaves, times * (l_.zero >= 2 ? leaves : 1), l_.zero >= 2);
  if (l_.zero == 0) units(out, "sums of gradients", collective::all_gather, 4, times, false);
  if (l_.zero > 0 && l_.replicas() > 1) {
    const double shard = (local_.dense() + (l_.expert_parts() > 1 ? 0 : local_.all_experts())) / f(l_.shards());
    add(out, {"gradients, replicas", sum, replica_group(), shard * sum_of_leaves, times, false});
    add(out, {"sums, replicas", collective::all_gather, replica_group(), shard * 4, times, false});
  }
  if (l_.zero > 0)  // a double for each block of 1024
    add(out,
        {"norm", collective::all_gather, dense_group(),
         8 * std::ceil((local_.dense() + (l_.expert_parts() > 1 ? 0 : local_.all_experts())) / 1024), times, false});
  if (l_.zero == 1 || l_.zero == 2) units(out, "updated weights", collective::all_gather, weight_bytes(), times, false);
}

RLCORE_INLINE void traffic::passes(std::vector<transfer>& out, const std::string& when, double passes, double tokens,
                                   bool backward) const {
  const double calls = passes * f(part_.layers), value = l_.value_bytes(c_);
  const double kv = 2 * f(m_.kv_width()) / f(l_.tensor), q = f(m_.query_width()) / f(l_.tensor);
  // The rows of each sublayer, and those of the embedding or the head; sequence parallel layers gather the inputs of
  // their products once more.
  add(out, {"tensor, " + when,
            collective::all_reduce,
            {l_.tensor, 1},
            tokens * f(m_.hidden_size) * value,
            ((backward ? part_.has_head() : part_.has_embedding()) ? passes : 0) +
                (backward && l_.sequence_parallel ? 3 : 2) * calls,
            false});
  if (backward && w_.lora_rank > 0) {  // low-rank products of o, q k v, and without experts of down, gate up
    const double rows = tokens * f(w_.lora_rank) * value, linears = m_.experts > 0 ? 1 : 2;
    const auto products = [&](const char* name, double each) {
      add(out, {name, collective::all_reduce, {l_.tensor, 1}, each * rows, linears * calls, false});
    };
    products("tensor, U of adapters", 1);
    products("tensor, dU of adapters", m_.experts > 0 ? 3 : 2.5);
  }
  const rank_group context{l_.context, l_.tensor};
  const double whole = tokens * f(l_.context);
  if (l_.how_context == context_kind::gather_kv) {
    add(out, {"keys, values, " + when, collective::all_gather, context, whole * kv * value, calls, false});
    if (backward) add(out, {"dK, dV", collective::ordered_sum, context, whole * kv * 4, calls, false});
  } else if (l_.how_context == context_kind::ring) {
    add(out, {"ring, " + when, collective::shift, context, tokens * kv * value, calls * f(l_.context - 1), true});
    if (backward) add(out, {"ring, dK, dV", collective::shift, context, tokens * kv * 4, calls * f(l_.context), true});
  } else {
    // With more ranks than key heads, groups of `heads` ranks exchange heads and are a ring among each other.
    const std::int64_t heads = std::gcd(l_.context, m_.kv_heads / l_.tensor), groups = l_.context / heads;
    add(out,
        {"ulysses, " + when, collective::all_to_all, {heads, l_.tensor}, tokens * (2 * q + kv) * value, calls, false});
    if (groups > 1) {
      const rank_group ring{groups, l_.tensor * heads};
      add(out, {"ring, " + when, collective::shift, ring, tokens * kv * value, calls * f(groups - 1), true});
      if (backward) add(out, {"ring, dK, dV", collective::shift, ring, tokens * kv * 4, calls * f(groups), true});
    }
  }
  if (m_.experts > 0)
    add(out, {"experts, " + when,
              collective::all_to_all,
              {l_.expert, l_.tensor},
              tokens * f(m_.experts_per_token * m_.hidden_size) * value,
              2 * calls,
              false});
}

RLCORE_INLINE void traffic::hidden_states(std::vector<transfer>& out, double passes, double tokens) const {
  if (part_.has_head()) return;
  const double bytes = tokens * f(m_.hidden_size) * l_.value_bytes(c_) + sizeof(nn::pass_header);
  add(out, {"hidden states to the next stage", collective::shift, stage_group(), bytes, passes, false});
}

RLCORE_INLINE void traffic::hidden_gradients(std::vector<transfer>& out, double passes, double tokens) const {
  if (part_.has_embedding()) return;
  const double one_range = 2 * sizeof(std::uint32_t);  // all sequences of a pass have a gradient
  const double bytes = tokens * f(m_.hidden_size) * l_.value_bytes(c_) + sizeof(nn::pass_header) + one_range;
  add(out, {"gradients to the stage before", collective::shift, stage_group(), bytes, passes, false});
}

RLCORE_INLINE void traffic::between_stages(std::vector<transfer>& out, double times) const {
  if (l_.stages() == 1) return;
  // A double for each block of 1024, or of each tensor parallel rank.
  const double trained =
      f(w_.lora_rank > 0 ? m_.layers * m_.adapter_parameters(w_.lora_rank, l_.tensor) : m_.parameters());
  const double blocks = l_.tensor > 1 ? f(l_.stages()) : std::ceil(trained / 1024);
  add(out, {"norm of all stages", collective::all_gather, stage_group(), 8 * blocks, times, false});
  if (!m_.tied || w_.lora_rank > 0) return;  // adapters leave the embedding as it is
  const double rows = embedding_rows(m_, l_, b_), leaves = sums_by_leaf(l_) ? f(b_.leaves) : 1;
  if (part_.has_embedding())
    add(out, {"embedding, gradients of its rows", collective::shift, stage_group(), 4 * rows * f(m_.hidden_size + 1),
              times * leaves, false});
  if (part_.has_head())
    add(out, {"embedding, updated", collective::shift, stage_group(), 4 * f(m_.embedding_parameters()) / f(l_.tensor),
              times, false});
}

}  // namespace train::planning
RLCORE_END
#endif
