// Model configuration: the family and the fields of config.json.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/nn/attention/rope.hpp"
#include "rlcore/nn/family/families.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

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
