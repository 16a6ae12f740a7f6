// Model configuration: the fields of config.json; model families (Llama, Qwen2, Qwen2.5-VL, Qwen3, Qwen3-MoE) and their
// differences.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/attention/rope.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// A key of config.json with only one supported value; other values are rejected. `implied`: transformers' config of
/// the family has no such key, and write_config() does not write it.
struct fixed_flag {
  std::string_view key;
  bool value = false, implied = false;
};

/// Names of a layer's parameters after "model.layers.N.", without ".weight". The projections are q_proj, k_proj, v_proj
/// and o_proj of self_attn and gate_proj, up_proj and down_proj of mlp in all families; adapters use these names.
struct layer_names {
  std::string_view input_norm = "input_layernorm", post_attention_norm = "post_attention_layernorm",
                   q_norm = "self_attn.q_norm", k_norm = "self_attn.k_norm", router = "mlp.gate",
                   experts = "mlp.experts";
};

/// Additional file fields of a family with a vision tower (config::vision). The ids are transformers' defaults, for
/// files without them.
struct vision_traits {
  std::string_view text_type;       ///< model_type of text_config, the language model's object
  std::string_view tower_type;      ///< model_type of vision_config
  std::string_view old_tower_type;  ///< the same in files of transformers 4
  std::int32_t image_token_id = -1, video_token_id = -1, vision_start_token_id = -1, vision_end_token_id = -1;
  /// The spellings of these tokens in the tokenizer.
  std::string_view image_token = "<|image_pad|>", video_token = "<|video_pad|>", vision_start = "<|vision_start|>",
                   vision_end = "<|vision_end|>";
};

/// Traits of a decoder family: pre-RMSNorm, RoPE, grouped-query attention. Families override these defaults.
struct family_traits {
  std::string_view model_type;            ///< of config.json, e.g. "llama"
  std::string_view architecture;          ///< of config.json, the part before ForCausalLM, e.g. "Llama"
  std::string_view task = "ForCausalLM";  ///< the part after it for logits

  // Architecture.
  bool qkv_bias = false;                 ///< q_proj, k_proj and v_proj have biases
  bool o_bias = true;                    ///< o_proj has a bias if they do
  bool qk_norms = false;                 ///< RMS norm of queries and keys per head
  bool experts = false;                  ///< mixture of experts instead of the MLP in some or all layers
  std::string_view activation = "silu";  ///< hidden_act: down_proj(activation(gate_proj x) * up_proj x)
  layer_names names{};
  const vision_traits* vision = nullptr;  ///< the family has a vision tower and uses mrope_section; null: text only

  // config.json.
  std::span<const fixed_flag> flags{};
  std::int64_t default_head_dim = 0;  ///< of transformers' config; 0: hidden_size / num_attention_heads
  double default_rope_theta = 0;      ///< transformers' default for files without rope_theta; 0: none
  double published_rope_theta = 1e6;  ///< for new models
};

/// A family as a type: `static constexpr family_traits traits`. Selects a family at compile time: `nn::config c{.model
/// = nn::llama{}}`.
template <class F>
concept model_family = requires {
  { F::traits } -> std::same_as<const family_traits&>;
};

/// No biases and no norms of queries and keys. Files older than Llama 2 have no rope_theta.
struct llama {
  static constexpr fixed_flag flags[] = {
      {"attention_bias", false}, {"mlp_bias", false}, {"use_sliding_window", false, true}};
  static constexpr family_traits traits{.model_type = "llama",
                                        .architecture = "Llama",
                                        .flags = flags,
                                        .default_rope_theta = 1e4,
                                        .published_rope_theta = 5e5};
};

/// Biases of q, k and v, which config.json cannot disable.
struct qwen2 {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", true, true}};
  static constexpr family_traits traits{
      .model_type = "qwen2", .architecture = "Qwen2", .qkv_bias = true, .o_bias = false, .flags = flags};
};

/// Qwen2's language model with its biases of q, k and v, and a vision tower.
struct qwen2_5_vl {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", true, true}};
  static constexpr vision_traits vision{.text_type = "qwen2_5_vl_text",
                                        .tower_type = "qwen2_5_vl_vision",
                                        .old_tower_type = "qwen2_5_vl",
                                        .image_token_id = 151655,
                                        .video_token_id = 151656,
                                        .vision_start_token_id = 151652,
                                        .vision_end_token_id = 151653};
  static constexpr family_traits traits{.model_type = "qwen2_5_vl",
                                        .architecture = "Qwen2_5_VL",
                                        .task = "ForConditionalGeneration",
                                        .qkv_bias = true,
                                        .o_bias = false,
                                        .vision = &vision,
                                        .flags = flags,
                                        .default_rope_theta = 1e6};
};

/// Norms of queries and keys instead of Qwen2's biases; the head size is head_dim.
struct qwen3 {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", false}};
  static constexpr family_traits traits{
      .model_type = "qwen3", .architecture = "Qwen3", .qk_norms = true, .flags = flags, .default_head_dim = 128};
};

/// Qwen3 with experts instead of the MLP in some or all layers.
struct qwen3_moe {
  static constexpr fixed_flag flags[] = {{"use_sliding_window", false}, {"attention_bias", false}};
  static constexpr family_traits traits{
      .model_type = "qwen3_moe", .architecture = "Qwen3Moe", .qk_norms = true, .experts = true, .flags = flags};
};

/// Type-erased family; converts from a family type: `family f = llama{};` then `f->qk_norms`.
class family {
 public:
  /// The family of a family type.
  template <model_family F>
  constexpr family(F) noexcept : traits_(&F::traits) {}

  constexpr const family_traits* operator->() const noexcept { return traits_; }
  constexpr const family_traits& operator*() const noexcept { return *traits_; }
  friend constexpr bool operator==(family a, family b) noexcept { return a->model_type == b->model_type; }
  /// Writes the model_type.
  template <class Stream>
  friend Stream& operator<<(Stream& out, family f) {
    out << f->model_type;
    return out;
  }

  static const family qwen2, qwen3, qwen3_moe;  ///< same as nn::qwen2{}, nn::qwen3{}, nn::qwen3_moe{}

 private:
  const family_traits* traits_;
};

inline constexpr family family::qwen2 = nn::qwen2{}, family::qwen3 = nn::qwen3{}, family::qwen3_moe = nn::qwen3_moe{};

/// One row per family. Files and command lines identify families by their model_type.
inline constexpr std::array families{
    family(qwen2{}), family(qwen3{}), family(qwen3_moe{}), family(llama{}), family(qwen2_5_vl{}),
};

/// Hugging Face's model_type.
constexpr std::string_view name_of(family f) noexcept { return f->model_type; }

/// Finds a family by model_type; null if unknown.
constexpr const family* find_family(std::string_view model_type) noexcept {
  for (const family& f : families)
    if (f->model_type == model_type) return &f;
  return nullptr;
}

/// Joins the family names with `between`, and with `last` before the last: "a, b or c".
inline std::string family_names(std::string_view between, std::string_view last, std::string_view quote = {}) {
  std::string list;
  for (const family& f : families) {
    if (!list.empty()) list += &f == &families.back() ? last : between;
    ((list += quote) += f->model_type) += quote;
  }
  return list;
}

/// logits: a causal language model. score: one number per token from the last hidden state (reward, process reward and
/// value models).
enum class model_output { logits, score };

/// Names and meanings are those of Hugging Face's config.json.
struct config {
  family model = qwen2{};
  model_output output = model_output::logits;
  bool score_bias = false;  ///< the head of a score model has a bias (ForTokenClassification)
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0,
               num_key_value_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-6, rope_theta = 1e6;
  rope_settings rope_scaling;
  bool tie_word_embeddings = true;
  bool attention_bias = true;  ///< q, k and v have biases; published models: the family's qkv_bias
  std::int64_t max_position_embeddings = 32768;
  double initializer_range = 0.02;
  std::vector<std::int32_t> eos_token_ids;    ///< generation stops at any of them
  std::int32_t pad_token_id = -1;             ///< of config.json: its input embedding gets no gradient; -1: none
  std::int32_t generation_pad_token_id = -1;  ///< of generation_config.json, if it differs; -1: pad_token_id
  /// Not in config.json: the number of equal chunks, added pairwise, of the sums that tensor parallelism splits (inputs
  /// of o_proj and down_proj, outputs of the other projections in their backward, the vocabulary). Every number of
  /// ranks that divides it is bit-identical to one rank. 0: each rank adds its own part, the fastest.
  std::int64_t tp_reduce_chunks = 0;

  // Mixture of experts: layer l has experts if (l + 1) is a multiple of decoder_sparse_step and l is not in
  // mlp_only_layers
  std::int64_t num_experts = 0, num_experts_per_tok = 0, moe_intermediate_size = 0, decoder_sparse_step = 1;
  std::vector<std::int64_t> mlp_only_layers;
  bool norm_topk_prob = false;        ///< renormalise the weights of the chosen experts to sum 1
  bool output_router_logits = false;  ///< training adds router_aux_loss_coef times the load-balancing loss
  double router_aux_loss_coef = 0.001;

  // Families with a vision tower
  std::optional<vision_config> vision;
  std::array<std::int64_t, 3> mrope_section = {};  ///< rotary pairs of a head for time, row, column
  std::int32_t image_token_id = -1;                ///< placeholder of an image row; its embedding gets no gradient
  std::int32_t video_token_id = -1, vision_start_token_id = -1, vision_end_token_id = -1;  ///< of config.json

  /// Does the model normalise queries and keys?
  bool qk_norms() const noexcept { return model->qk_norms; }
  /// Does o_proj have a bias? q_proj, k_proj and v_proj have one with attention_bias.
  bool o_bias() const noexcept { return attention_bias && model->o_bias; }
  /// Is it a mixture-of-experts family?
  bool has_experts() const noexcept { return model->experts; }
  /// Does layer `layer`, counted from 0, have experts? It does if (layer + 1) is a multiple of decoder_sparse_step and
  /// the layer is not in mlp_only_layers (Qwen3-MoE of transformers).
  bool sparse(std::int64_t layer) const noexcept {
    return has_experts() && (layer + 1) % decoder_sparse_step == 0 &&
           std::find(mlp_only_layers.begin(), mlp_only_layers.end(), layer) == mlp_only_layers.end();
  }
  /// The number of layers with experts.
  std::int64_t sparse_layers() const noexcept {
    std::int64_t n = 0;
    for (std::int64_t l = 0; l < num_hidden_layers; ++l) n += sparse(l);
    return n;
  }

  /// Placeholder tokens of vision tower rows, never text. Their logits are -inf everywhere: in generation, in
  /// log-probs, entropies and their gradients. Empty without a tower.
  std::vector<std::int32_t> never_sampled() const {
    std::vector<std::int32_t> tokens;
    for (const std::int32_t id : {image_token_id, video_token_id})
      if (vision && output == model_output::logits && id >= 0) tokens.push_back(id);
    return tokens;
  }

  /// Embedding and head share one matrix; has no meaning for score models.
  bool tied() const noexcept { return output == model_output::logits && tie_word_embeddings; }
};

}  // namespace nn
RLCORE_END
