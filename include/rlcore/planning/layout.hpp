// A layout of ranks, the workload, and the batches of a rank.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/planning/cluster.hpp"
#include "rlcore/planning/model_shape.hpp"

RLCORE_BEGIN
namespace train::planning {

/// The reference model: none, whole on each device, or sharded.
enum class reference_form { none, whole, sharded };

/// One step of the workload; plans for the worst case, every response at its maximum length.
struct workload {
  std::int64_t prompts = 128, responses = 8, prompt_length = 1024, response_length = 3072;
  std::int64_t image_tokens = 0;      ///< image tokens of a prompt
  std::int64_t updates = 1;           ///< optimizer steps for a step's sequences
  std::int64_t epochs = 1;            ///< passes over each sequence
  std::int64_t micro_tokens = 16384;  ///< tokens that one device takes through the model at once
  bool recompute = true;              ///< activation recomputation: layers run again before their backward
  bool samples = true;                ///< false: supervised and preference training, which only update
  std::int64_t leaves = 8;            ///< of the gradient's tree (rlcore.gradient_leaves)
  std::int64_t lora_rank = 0;         ///< adapters of all linear layers; 0: all weights are trained
  bool old_log_probs = true;          ///< scored again by the trained model before the update
  /// Scoring by a reference model, laid out like the trained weights (a shard with zero 3, as in this library's
  /// trainers), or whole on every device.
  reference_form reference = reference_form::none;
  double logits_bytes = 256 << 20;  ///< of logits in memory at once

  std::int64_t sequences() const noexcept { return prompts * responses; }
  std::int64_t length() const noexcept { return prompt_length + response_length; }
};

using parallel::context_kind;
using parallel::reduction_kind;

/// Ranks are (((stages * data) * context) * tensor), tensor fastest; expert groups lie over data x context.
struct layout {
  std::int64_t data = 1, context = 1, tensor = 1, expert = 1;
  parallel::pipeline_division pipeline = {};  ///< stages with some of the layers each, as trainers divide them
  int zero = 3;                               ///< 0: DDP
  std::int64_t rollout_tensor = 1;            ///< devices that hold one copy of the weights while sampling
  context_kind how_context = context_kind::gather_kv;
  reduction_kind sums = reduction_kind::tree;
  bool sequence_parallel = false;     ///< activations between the products of a layer are split over the tensor group
  bool reshard_after_forward = true;  ///< zero 3: a layer's weights are gathered again for its backward
  bool optimizer_offload = false;     ///< AdamW's moments are in the memory of the host
  bool wire_bf16 = false;             ///< gradients travel in bf16
  bool compute_type = false;          ///< gathered, kept or sent values have the compute type; this library uses floats
  bool expert_shards = false;    ///< weights of experts lie on one rank of a group with zero 3 and while sampling too;
                                 ///< this library's trainers then hold shards of all
  bool leaf_of_micro = false;    ///< one leaf per micro-batch: gradients never whole, more traffic
  std::int64_t shard_ranks = 0;  ///< ranks that state is sharded over, replicated beyond (HSDP); 0: over all

  /// The pipeline parallel size; 1: every rank has all layers.
  std::int64_t stages() const noexcept { return pipeline.stages; }
  std::int64_t devices() const noexcept { return stages() * data * context * tensor; }
  std::int64_t devices_of_stage() const noexcept { return data * context * tensor; }
  /// Of one stage: summed: the ranks whose gradients are added. shards: those that a non-expert parameter is sharded
  /// over. replicas: the number of such groups. expert_shard_ranks: the ranks that one expert's parameters are sharded
  /// over.
  std::int64_t summed() const noexcept { return data * context; }
  std::int64_t shards() const noexcept { return shard_ranks == 0 ? summed() : shard_ranks; }
  std::int64_t replicas() const noexcept { return summed() / shards(); }
  std::int64_t expert_shard_ranks() const noexcept { return expert_parts() > 1 ? summed() / expert : shards(); }
  /// The number of parts that the weights of experts are divided into, in training and in passes that only score.
  std::int64_t expert_parts() const noexcept { return expert_shards || zero < 3 ? expert : 1; }
  std::int64_t scored_expert_parts() const noexcept { return expert_shards ? expert : 1; }
  /// True if ranks sample with the weights as they have them in training.
  bool samples_in_place() const noexcept {
    return zero < 3 && rollout_tensor == tensor && !collects_experts() && stages() == 1;
  }
  /// The parts of the `experts` while ranks sample: other groups than training's divide them (nn::sampling_part).
  std::int64_t rollout_expert_parts(std::int64_t experts) const noexcept {
    if (expert_shards) return expert;
    return samples_in_place() || experts < rollout_tensor ? 1 : rollout_tensor;
  }
  /// True if non-training passes need experts of remote ranks.
  bool collects_experts() const noexcept { return scored_expert_parts() < expert_parts(); }

  /// The bytes of a value that is not a product's operand.
  double value_bytes(const cluster& c) const noexcept { return compute_type ? c.value_bytes : 4; }

  std::string text() const;
};

/// What one stage of a pipeline has of a model.
struct pipeline_part {
  std::int64_t stage = 0, stages = 1, layers = 0;

  bool has_embedding() const noexcept { return stage == 0; }
  bool has_head() const noexcept { return stage + 1 == stages; }
  /// The first stage has a copy of a tied embedding, which the last stage owns.
  bool copies_embedding(const model_shape& m) const noexcept { return m.tied && has_embedding() && !has_head(); }
  /// Passes through this stage whose backward has not ended, of `micro` (1F1B).
  std::int64_t alive(std::int64_t micro) const noexcept { return std::min(stages - stage, micro); }
};

/// The parameters of a rank before they are sharded over data x context.
struct local_sizes {
  double layer = 0, experts = 0,
         ends = 0,  ///< parameters of one layer without experts, its experts, embedding and head
      tower = 0;    ///< those of a vision tower, replicated on every tensor rank
  double copy = 0;  ///< the first stage's copy of a tied embedding, without gradient and moments; not in dense()
  std::int64_t layers = 0;

  /// Counts of a rank with dense parameters split into `tensor` parts and experts into `expert` parts.
  local_sizes(const model_shape& m, std::int64_t tensor, std::int64_t expert)
      : local_sizes(m, tensor, expert, {0, 1, m.layers}) {}
  /// The same for the part of the model that a stage of a pipeline has; a tied embedding belongs to the last stage.
  local_sizes(const model_shape& m, std::int64_t tensor, std::int64_t expert, const pipeline_part& part)
      : layer(static_cast<double>(m.dense_layer_parameters()) / static_cast<double>(tensor)),
        experts(m.experts == 0 ? 0
                               : static_cast<double>(m.experts * m.expert_parameters()) / static_cast<double>(expert)),
        ends(static_cast<double>(((m.tied ? part.has_head() : part.has_embedding()) ? m.embedding_parameters() : 0) +
                                 (part.has_head() ? m.head_parameters() : 0)) /
             static_cast<double>(tensor)),
        tower(static_cast<double>(m.tower_parameters())),
        copy(part.copies_embedding(m) ? static_cast<double>(m.embedding_parameters()) / static_cast<double>(tensor)
                                      : 0),
        layers(part.layers) {
    if (tensor <= m.kv_heads) return;  // else a rank has a whole key head
    const double keys = 2 * static_cast<double>(m.head_dim * (m.hidden_size + (m.attention_bias ? 1 : 0)));
    layer += keys * (1 - static_cast<double>(m.kv_heads) / static_cast<double>(tensor));
  }
  double dense() const noexcept { return layer * static_cast<double>(layers) + ends + tower; }
  double all_experts() const noexcept { return experts * static_cast<double>(layers); }
  double total() const noexcept { return dense() + all_experts(); }
};

/// The parts of all stages, divided by parallel::divide_layers(); the whole model for one stage. Throws config_error if
/// the layers cannot be divided so.
std::vector<pipeline_part> pipeline_parts(const model_shape& m, const layout& l);

/// One line with the reason why the layout is impossible; empty if it is possible.
std::string check_layout(const layout& l, const model_shape& m, const workload& w, std::int64_t devices);

/// The batches of the busiest data rank, per optimizer step unless a member says otherwise.
struct batches {
  std::int64_t rows = 0;           ///< sequences
  std::int64_t micro_rows = 0;     ///< sequences per micro-batch
  std::int64_t micro = 0;          ///< micro-batches
  std::int64_t leaves = 1;         ///< leaves of the gradient's tree, each sent separately with zero 2 and 3
  std::int64_t tokens = 0;         ///< tokens of one device per micro-batch
  std::int64_t scored = 0;         ///< micro-batches of a scoring pass; not split by leaves
  std::int64_t scored_tokens = 0;  ///< tokens of one device per scored micro-batch

  /// workload::leaves leaves, or one for each data rank if there are more, or one for each micro-batch.
  batches(const layout& l, const workload& w) {
    const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
    rows = up(std::max<std::int64_t>(1, w.sequences() / w.updates), l.data);
    const std::int64_t wanted = std::max<std::int64_t>(1, w.micro_tokens * l.context / w.length());
    leaves = l.leaf_of_micro ? up(rows, wanted) : std::min(rows, up(w.leaves, l.data));
    micro_rows = std::min(wanted, up(rows, leaves));
    micro = leaves * up(up(rows, leaves), micro_rows);
    tokens = up(micro_rows * w.length(), l.context);
    const std::int64_t sequences = up(w.sequences(), l.data);
    scored = up(sequences, wanted), scored_tokens = up(std::min(wanted, sequences) * w.length(), l.context);
  }
};

}  // namespace train::planning
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_PLANNING)
RLCORE_BEGIN
namespace train::planning {

RLCORE_INLINE std::string layout::text() const {
  std::string out = "zero" + std::to_string(zero) + " data " + std::to_string(data);
  const auto add = [&](const char* name, std::int64_t n) {
    if (n > 1) out += std::string(" ") + name + " " + std::to_string(n);
  };
  add("context", context), add("tensor", tensor), add("stages", stages()), add("expert", expert),
      add("rollout", rollout_tensor == tensor ? 1 : rollout_tensor), add("shared by", shard_ranks);
  return out + (leaf_of_micro ? " small leaves" : "");
}

RLCORE_INLINE std::vector<pipeline_part> pipeline_parts(const model_shape& m, const layout& l) {
  if (l.stages() == 1) return {{0, 1, m.layers}};
  std::vector<pipeline_part> parts;
  for (const parallel::index_range& r : parallel::divide_layers(m.layers, l.pipeline, {.stages = "stages"}))
    parts.push_back({std::ssize(parts), l.stages(), static_cast<std::int64_t>(r.size())});
  return parts;
}

}  // namespace train::planning

namespace train::planning::detail {

/// Why trainers do not run these stages of a pipeline; empty if they do.
RLCORE_INLINE std::string check_stages(const layout& l, const model_shape& m, const workload& w) {
  if (l.stages() == 1) return {};
  if (m.tower) return "stages: models with a vision tower are not divided into stages";
  if (l.zero > 1) return "zero=" + std::to_string(l.zero) + " with stages: expected ZeRO stage 0 or 1";
  if (l.expert > 1 && m.tied) return "stages: ranks cannot divide the experts of a model whose embedding is tied";
  if (w.reference == reference_form::whole) return "stages together with reference=whole is not planned";
  try {
    pipeline_parts(m, l);
  } catch (const config_error& e) {
    return e.what();
  }
  return {};
}

}  // namespace train::planning::detail

namespace train::planning {

RLCORE_INLINE std::string check_layout(const layout& l, const model_shape& m, const workload& w, std::int64_t devices) {
  const auto number = [](std::int64_t n) { return std::to_string(n); };
  const auto divides = [&](const char* name, std::int64_t n, const char* of, std::int64_t whole) -> std::string {
    if (n >= 1 && whole % n == 0) return {};
    return std::string(name) + "=" + number(n) + " does not divide " + of + " " + number(whole);
  };
  for (const std::string& why :
       {divides("tensor", l.tensor, "the key and value heads", m.kv_heads),
        m.experts == 0 ? divides("tensor", l.tensor, "intermediate_size", m.intermediate_size) : std::string(),
        l.rollout_tensor > m.kv_heads && l.rollout_tensor % m.kv_heads == 0  // ranks with the same key heads
            ? divides("rollout_tensor", l.rollout_tensor, "the query heads", m.heads)
            : divides("rollout_tensor", l.rollout_tensor, "the key and value heads", m.kv_heads),
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
        w.lora_rank > 0 && l.expert > 1
            ? std::string("expert: adapters (LoRA) cannot be trained while ranks divide experts")
            : std::string(),
        detail::check_stages(l, m, w)})
    if (!why.empty()) return why;
  if (l.devices() != devices)
    return (l.stages() > 1 ? "stages " + number(l.stages()) + " x " : std::string()) + "data " + number(l.data) +
           " x context " + number(l.context) + " x tensor " + number(l.tensor) + " are " + number(l.devices()) +
           " devices, not " + number(devices);
  const std::int64_t rows = w.sequences() / w.updates;
  if (l.data > rows)
    return "data=" + number(l.data) + " has more ranks than an update has sequences (" + number(rows) + ")";
  return {};
}

}  // namespace train::planning
RLCORE_END
#endif
