// Causal language model of one of the families (nn/config.hpp), or a score model with one score instead of logits.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/layer/block.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/model/weight_values.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/nn/vision/vision_pass.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace nn {

/// All weights live in one flat buffer, in the order of parameters(): a checkpoint, a clip or an optimizer step is one
/// call over it. Gradients have the same layout (nn::gradients). The passes are in log_probs.hpp, forward_backward.hpp
/// and decode.hpp; for a score model (config::output) in log_probs.hpp and forward_backward.hpp.
template <rlcore::device Device>
class causal_lm {
 public:
  /// Allocates the weights (uninitialised). Throws config_error, naming the key of config.json, for inconsistent sizes.
  /// head_dim 0 means hidden_size / num_attention_heads. With a partition the weights are those of one rank: its shard
  /// of tensors, and the units of its stage of a pipeline.
  causal_lm(Device& device, config settings, const nn::partition& part = {}, weights_in where = weights_in::memory)
      : device_(&device), settings_(checked_sizes(std::move(settings))), partition_(part), where_(where) {
    check_partition(settings_, partition_);
    lay_out();
    if (where_ != weights_in::units) allocate_weights();
    packed_.emplace_back(device.compute_format());
  }

  Device& device() const noexcept { return *device_; }
  /// The settings of the whole model, not of this rank's part.
  const config& settings() const noexcept { return settings_; }
  const nn::partition& part() const noexcept { return partition_; }
  /// Sets the tensor parallel group. Every pass needs it if part() is one of several; all ranks run the same passes.
  /// The group must outlive the passes. Throws std::invalid_argument unless it matches part().
  void set_tensor_group(tensor_group* group) {
    if (group) check_group(partition_, group->rank(), group->size());
    tensor_ = group && group->size() > 1 ? group : nullptr;
  }
  /// nullptr for one rank. Throws std::logic_error if the model is partitioned and no group was set.
  tensor_group* tensor() const {
    if (partition_.tensor_size > 1 && !tensor_)
      throw std::logic_error("rlcore: a tensor parallel model runs without set_tensor_group()");
    return tensor_;
  }
  /// The vocabulary range of this rank.
  const slice& vocabulary() const noexcept { return vocabulary_; }
  /// Sets the way to the other stages, which run the same passes.
  void set_pipeline(pipeline_link* link) noexcept { pipeline_ = link; }
  /// nullptr for a whole model. Throws std::logic_error for a stage without it.
  pipeline_link* pipeline() const {
    if (partition_.stage.split() && !pipeline_)
      throw std::logic_error("rlcore: a stage of a pipeline runs without set_pipeline()");
    return pipeline_;
  }
  std::span<const parameter> parameters() const noexcept { return parameters_; }
  std::size_t size() const noexcept { return size_; }
  /// Those without the copy of a tied embedding that belongs to the last stage: the first stage's last parameter.
  std::span<const parameter> own_parameters() const noexcept {
    return parameters().first(parameters_.size() - (copies_embedding() ? 1 : 0));
  }
  std::size_t own_size() const noexcept { return copies_embedding() ? parameters_.back().offset : size_; }
  /// Does this stage have a copy of the last stage's embedding?
  bool copies_embedding() const noexcept {
    return settings_.tied() && partition_.stage.has_embedding() && !partition_.stage.has_head();
  }
  std::size_t embedding_offset() const noexcept { return embedding_offset_; }  ///< in the flat weights
  /// The values that all ranks of an expert parallel model hold; this rank's experts follow. Otherwise size().
  std::size_t shared_size() const noexcept { return shared_size_; }
  /// Mutable weights. Invalidates the packed copies, rebuilt at their next use. Throws std::logic_error without floats.
  buffer<float, Device>& weights() {
    if (packed_alone()) throw std::logic_error("rlcore: the weights are packed alone; only fill() may change them");
    for (packed_weights<Device>& p : packed_) p.forget();
    return weights_;
  }
  const buffer<float, Device>& weights() const noexcept { return weights_; }

  /// The packed weights of linear layers. Training and scoring use the device's compute format; generation may use
  /// int8.
  packed_view packed() const { return packed(device_->compute_format()); }
  /// The packed weights in `format`, built at the first use after a change. Throws std::logic_error while the weights
  /// are sharded, and if they exist only packed in another format or are not filled yet.
  packed_view packed(weight_format format) const {
    if (packed_alone() && !packed_.front().holds(format))
      throw std::logic_error("rlcore: the weights are packed alone, in another format, or fill() has not given any");
    if (!packed_alone() && weights_.size() != size_)
      throw std::logic_error("rlcore: the weights are in shards; gather_full_params() them first");
    for (packed_weights<Device>& p : packed_)
      if (p.format() == format || packed_alone()) return p.view(*device_, matrices_, weights_.data());
    return packed_.emplace_back(format).view(*device_, matrices_, weights_.data());
  }
  std::span<const matrix> matrices() const noexcept { return matrices_; }

  /// Are only norms and biases stored as floats (weights_in::packed)?
  bool packed_alone() const noexcept { return where_ == weights_in::packed; }
  /// Loads the weights of a model of weights_in::packed. read(first, values) fills `values` from weight index `first`
  /// on and may be called by several threads. Packs into `format`. If all matrices are bfloat16 values,
  /// float32 takes half the memory where the device can (weight_format::bfloat16_exact). If the format stores the
  /// embedding exactly, its rows are read from the packed copy; otherwise it is also kept as floats.
  template <class Read>
  void fill(weight_format format, bf16_weights rounded, Read&& read) {
    if (!packed_alone()) throw std::logic_error("rlcore: fill() is for a model whose weights are packed alone");
    if (weights_.size() != kept_) allocate_weights();
    fill_packed(*device_, std::span<const parameter>(parameters_), weights_.data(), packed_.front(), embedding_,
                std::span<const matrix>(matrices_), products_, format, rounded, read);
  }
  /// The embedding of a model with only packed weights: as floats, or null if the packed copy embedding_number() serves
  /// it.
  const float* embedding_rows() const noexcept { return embedding_.data(); }
  std::size_t embedding_number() const noexcept {
    return settings_.tied() ? head_.output.number : matrices_.size() - 1;
  }
  /// Bytes of device memory of the weights, including packed copies.
  std::size_t bytes() const noexcept {
    std::size_t all = weights_.bytes() + embedding_.bytes();
    for (const packed_weights<Device>& p : packed_) all += p.bytes();
    return all;
  }

  /// The source of sharded weights, unit by unit; null if the model holds its weights. The source must outlive the
  /// model.
  unit_source* units() const noexcept { return weights_.size() == size_ || packed_alone() ? nullptr : units_; }
  /// Sets the source of sharded weights; null: none.
  void set_units(unit_source* source) noexcept { units_ = source; }
  /// Allocates (uninitialised) and frees memory for the weights.
  void allocate_weights() { weights_ = buffer<float, Device>(*device_, packed_alone() ? kept_ : size_); }
  void free_weights() {
    weights_ = {}, embedding_ = {};
    clear_packed();
  }
  /// Frees the packed copies of weights that are in memory; the next pass that needs one builds it.
  void free_packed() const {
    if (!packed_alone()) clear_packed();
  }

  std::span<const block> blocks() const noexcept { return blocks_; }
  const nn::head& head() const noexcept { return head_; }
  /// The vision tower; without blocks if config::vision is not set.
  const vision_tower& tower() const noexcept { return tower_; }
  /// The range of the tower's parameters: [first, last).
  std::pair<std::size_t, std::size_t> tower_range() const noexcept { return tower_range_; }

  /// Freezes the vision tower: passes compute no gradient for it and save no activations; gradients of all weights
  /// contain 0 for it. Changes no other bit.
  void freeze_tower(bool frozen) noexcept { tower_frozen_ = frozen; }
  /// Does the model have a vision tower that is not frozen?
  bool trains_tower() const noexcept { return settings_.vision && !tower_frozen_; }

  /// Matrices normal(0, initializer_range), norms 1, biases 0; value i of the unsharded parameter k depends only on
  /// (seed, k, i). The head of a score model has the standard deviation 1 / (hidden_size + 1) (OpenRLHF).
  void initialize(std::uint64_t seed) {
    for (std::size_t k = 0; k < parameters_.size(); ++k) initialize(seed, k);
  }
  /// The values that initialize() gives to parameter k of parameters().
  std::vector<float> initial_values(std::uint64_t seed, std::size_t k) const {
    const parameter& p = parameters_[k];
    return drawn_values(
        p, numbers_[k], seed,
        p.name == score_name ? 1 / static_cast<double>(settings_.hidden_size + 1) : settings_.initializer_range);
  }
  /// initialize() for only the head of a score model: turns a causal model into a score model.
  void initialize_score(std::uint64_t seed) {
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      if (is_score(parameters_[k])) initialize(seed, k);
  }
  /// Does it belong to a score model's head?
  static bool is_score(const parameter& p) { return p.name.starts_with("score."); }

 private:
  void initialize(std::uint64_t seed, std::size_t k) {
    const std::vector<float> values = initial_values(seed, k);
    device_->upload(weights().data() + parameters_[k].offset, values.data(), values.size() * sizeof(float));
  }
  std::size_t add(std::string name, std::vector<std::int64_t> shape) {
    std::size_t n = 1;
    for (const std::int64_t e : shape) n *= static_cast<std::size_t>(e);
    const bool vector = shape.size() == 1;
    const std::size_t number = next_number_++;
    if (!has_unit_) return no_parameter;
    parameters_.push_back({std::move(name), std::move(shape), size_, n});
    numbers_.push_back(number);
    const std::size_t at = std::exchange(size_, size_ + n);
    return packed_alone() && vector ? std::exchange(kept_, kept_ + n) : at;
  }
  /// Adds a parameter with elements `part` of dimension d of a tensor of `shape`.
  std::size_t add_part(std::string name, std::vector<std::int64_t> shape, std::size_t d, const slice& part) {
    std::vector<std::int64_t> whole = shape, start(shape.size());
    shape[d] = part.size(), start[d] = part.begin;
    const std::size_t at = add(std::move(name), std::move(shape));
    if (has_unit_ && parameters_.back().shape != whole)
      parameters_.back().global_shape = std::move(whole), parameters_.back().start = start;
    return at;
  }

  void clear_packed() const {
    packed_.clear();
    packed_.emplace_back(device_->compute_format());
  }
  void pack(linear& l) {
    l.number = matrices_.size();
    matrices_.push_back({l.weight, l.outputs, l.inputs, l.row_parallel ? l.chunks : 1});
  }

  /// Projections of the same input are adjacent, weights first, then biases, so that one product computes them. A rank
  /// has whole heads, columns of gate and up, rows of the vocabulary, and the matching columns of o_proj and down.
  void lay_out() {
    const config& c = settings_;
    const std::int64_t rank = partition_.tensor_rank, ranks = partition_.tensor_size;
    const std::int64_t h = c.hidden_size, q = c.num_attention_heads * c.head_dim,
                       kv = c.num_key_value_heads * c.head_dim, heads = c.num_attention_heads / ranks;
    const slice keys = key_heads(c.num_key_value_heads, partition_),
                own_kv = {keys.begin * c.head_dim, keys.end * c.head_dim};
    const std::int64_t kv_heads = keys.size();
    const slice own_q = part_of(q, rank, ranks), middle = part_of(c.intermediate_size, rank, ranks);
    vocabulary_ = vocabulary_part(c.vocab_size, rank, ranks);
    const slice own_experts = part_of(c.num_experts, partition_.expert_rank, partition_.expert_size);
    extent_t sparse = 0;
    std::vector<std::size_t> numbers;  // per layer with experts: index of the first expert's first parameter
    const std::int64_t chunks = std::max<std::int64_t>(1, c.tp_reduce_chunks / ranks);
    const auto wide = [](std::int64_t n) { return static_cast<extent_t>(n); };
    const layer_names& names = c.model->names;
    const stage_part& stage = partition_.stage;
    has_unit_ = c.tied() ? stage.has_head() : stage.has_embedding();
    std::size_t embedding = add_part(embedding_name, {c.vocab_size, h}, 0, vocabulary_);
    has_unit_ = stage.has_embedding();
    if (c.vision) {
      tower_range_.first = size_;
      tower_ = vision_tower(*c.vision, [this](std::string name, std::vector<std::int64_t> shape) {
        return add(std::move(name), std::move(shape));
      });
      tower_range_.second = size_;
      tower_.for_linears([&](linear& each) { pack(each); });
    }
    for (std::int64_t l = 0; l < c.num_hidden_layers; ++l) {
      const std::string layer = "model.layers." + std::to_string(l) + ".", self = layer + "self_attn.",
                        mlp_name = layer + "mlp.";
      const auto named = [&](std::string_view part) { return (layer + std::string(part)) += ".weight"; };
      has_unit_ = stage.has_layer(l);
      block b;
      b.input_norm = {add(named(names.input_norm), {h}), wide(h), 1, c.rms_norm_eps};
      b.self_attention.qkv = {add_part(self + "q_proj.weight", {q, h}, 0, own_q), no_parameter,
                              wide(own_q.size() + 2 * own_kv.size()), wide(h)};
      add_part(self + "k_proj.weight", {kv, h}, 0, own_kv);
      add_part(self + "v_proj.weight", {kv, h}, 0, own_kv);
      if (c.attention_bias) {
        b.self_attention.qkv.bias = add_part(self + "q_proj.bias", {q}, 0, own_q);
        add_part(self + "k_proj.bias", {kv}, 0, own_kv);
        add_part(self + "v_proj.bias", {kv}, 0, own_kv);
      }
      if (c.qk_norms()) {
        b.self_attention.norms = true;
        b.self_attention.q_norm = {add(named(names.q_norm), {c.head_dim}), wide(c.head_dim), wide(heads),
                                   c.rms_norm_eps};
        b.self_attention.k_norm = {add(named(names.k_norm), {c.head_dim}), wide(c.head_dim), wide(kv_heads),
                                   c.rms_norm_eps};
      }
      b.self_attention.output = {add_part(self + "o_proj.weight", {h, q}, 1, own_q), no_parameter, wide(h),
                                 wide(own_q.size())};
      if (c.o_bias()) b.self_attention.output.bias = add(self + "o_proj.bias", {h});
      b.self_attention.shape = {wide(heads), wide(kv_heads), wide(c.head_dim),
                                static_cast<float>(1 / std::sqrt(static_cast<double>(c.head_dim)))};
      b.post_attention_norm = {add(named(names.post_attention_norm), {h}), wide(h), 1, c.rms_norm_eps};
      b.self_attention.head_sums = blocks_.size() * static_cast<std::size_t>(own_q.size() + own_kv.size());
      b.self_attention.qkv.sections = {wide(own_q.size()), wide(own_kv.size()), wide(own_kv.size())};
      b.self_attention.output.row_parallel = true;
      b.self_attention.qkv.chunks = b.self_attention.output.chunks = wide(chunks);
      if (c.sparse(l)) {
        b.experts.router = {add(named(names.router), {c.num_experts, h}), no_parameter, wide(c.num_experts), wide(h)};
        b.experts.chosen = wide(c.num_experts_per_tok), b.experts.renormalise = c.norm_topk_prob;
        b.experts.layer = sparse;
        if (has_unit_) ++sparse;
        b.experts.first_expert = own_experts.begin, b.experts.by_tensor = partition_.experts_by_tensor;
        numbers.push_back(next_number_);
        if (!divided()) lay_out_experts(b.experts, layer, own_experts, next_number_);
        next_number_ = numbers.back() + 3 * static_cast<std::size_t>(c.num_experts);
      } else {
        b.feed_forward = lay_out_mlp(mlp_name, c.intermediate_size, middle);
        b.feed_forward.gate_up.sections = {wide(middle.size()), wide(middle.size())};
        b.feed_forward.down.row_parallel = true;
        b.feed_forward.gate_up.chunks = b.feed_forward.down.chunks = wide(chunks);
      }
      if (has_unit_) blocks_.push_back(std::move(b));
    }
    has_unit_ = stage.has_head();
    head_.final_norm = {add("model.norm.weight", {h}), wide(h), 1, c.rms_norm_eps};
    if (c.output == model_output::score) {
      head_.output = {add(score_name, {1, h}), no_parameter, 1, wide(h)};
      if (c.score_bias) head_.output.bias = add("score.bias", {1});
    } else {
      head_.output = {embedding, no_parameter, wide(vocabulary_.size()), wide(h)};
      head_.chunks = vocabulary_chunks::of(c, partition_);
      for (const std::int32_t id : c.never_sampled())
        if (id >= vocabulary_.begin && id < vocabulary_.end) head_.excluded.push_back(wide(id - vocabulary_.begin));
      if (!c.tie_word_embeddings) head_.output.weight = add_part("lm_head.weight", {c.vocab_size, h}, 0, vocabulary_);
    }
    shared_size_ = size_;
    if (divided())
      for (std::int64_t l = 0, n = 0, own = 0; l < c.num_hidden_layers; ++l) {
        const std::int64_t number = c.sparse(l) ? n++ : -1;
        has_unit_ = stage.has_layer(l);
        if (has_unit_ && number >= 0)
          lay_out_experts(blocks_[static_cast<std::size_t>(own)].experts, "model.layers." + std::to_string(l) + ".",
                          own_experts, numbers[static_cast<std::size_t>(number)]);
        own += has_unit_ ? 1 : 0;
      }
    if (copies_embedding()) {
      has_unit_ = true, next_number_ = 0;
      embedding = add_part(embedding_name, {c.vocab_size, h}, 0, vocabulary_);
    }
    embedding_offset_ = embedding;
    for (block& b : blocks_) b.for_linears([&](linear& each) { pack(each); });
    if (stage.has_head()) pack(head_.output);
    products_ = matrices_.size();
    if (packed_alone() && !c.tied()) matrices_.push_back({embedding, wide(vocabulary_.size()), wide(h), 1});
  }
  bool divided() const noexcept { return partition_.expert_size > 1; }

  /// `number` is the index of the first parameter of all experts.
  void lay_out_experts(moe& m, const std::string& layer, const slice& local_experts, std::size_t number) {
    next_number_ = number + 3 * static_cast<std::size_t>(local_experts.begin);
    const std::int64_t width = settings_.moe_intermediate_size;
    const std::string name = (layer + std::string(settings_.model->names.experts)) + ".";
    for (std::int64_t e = local_experts.begin; e < local_experts.end; ++e)
      m.each.push_back(lay_out_mlp(name + std::to_string(e) + ".", width, {0, width}));
  }
  mlp lay_out_mlp(const std::string& name, std::int64_t width, const slice& part) {
    const std::int64_t h = settings_.hidden_size;
    const auto wide = [](std::int64_t n) { return static_cast<extent_t>(n); };
    mlp m;
    m.gate_up = {add_part(name + "gate_proj.weight", {width, h}, 0, part), no_parameter, wide(2 * part.size()),
                 wide(h)};
    add_part(name + "up_proj.weight", {width, h}, 0, part);
    m.down = {add_part(name + "down_proj.weight", {h, width}, 1, part), no_parameter, wide(h), wide(part.size())};
    return m;
  }

  static constexpr const char* score_name = "score.weight";
  static constexpr const char* embedding_name = "model.embed_tokens.weight";

  Device* device_;
  config settings_;
  nn::partition partition_;
  tensor_group* tensor_ = nullptr;
  pipeline_link* pipeline_ = nullptr;
  slice vocabulary_;
  std::vector<parameter> parameters_;
  std::vector<std::size_t> numbers_;  // parameter indices in the serial model, which has all experts
  std::size_t next_number_ = 0;
  bool has_unit_ = true;  // while parameters are laid out: does this stage have their unit?
  std::size_t embedding_offset_ = 0;
  std::vector<block> blocks_;
  nn::head head_;
  vision_tower tower_;
  std::pair<std::size_t, std::size_t> tower_range_ = {};
  bool tower_frozen_ = false;
  std::size_t size_ = 0, shared_size_ = 0;
  weights_in where_;
  std::size_t kept_ = 0, products_ = 0;  // floats of norms and biases; number of packed matrices
  buffer<float, Device> weights_, embedding_;
  unit_source* units_ = nullptr;
  std::vector<matrix> matrices_;
  mutable std::vector<packed_weights<Device>> packed_;  // copies of weights_, built on demand
};

}  // namespace nn
RLCORE_END

#if defined(RLCORE_MODELS)
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"

RLCORE_BEGIN
namespace nn {
extern template class causal_lm<cpu>;
extern template class causal_lm<any_device>;
}  // namespace nn
RLCORE_END
#endif
