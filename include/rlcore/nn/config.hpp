// What a dense Qwen2 or Qwen3 model is made of: the numbers of its config.json.
#pragma once

#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// qwen2 covers Qwen2 and Qwen2.5 (biases on q, k and v); qwen3 has per-head RMS norms of q and k instead.
enum class family { qwen2, qwen3 };

/// logits: a causal language model. score: one number per token from the last hidden state (reward, process reward and
/// value models).
enum class model_output { logits, score };

/// Names and meanings are those of Hugging Face's config.json.
struct config {
  family model = family::qwen2;
  model_output output = model_output::logits;
  bool score_bias = false;  ///< the head of a score model has one (ForTokenClassification)
  std::int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0, num_attention_heads = 0,
               num_key_value_heads = 0, head_dim = 0;
  double rms_norm_eps = 1e-6, rope_theta = 1e6;
  bool tie_word_embeddings = true, attention_bias = true;
  std::int64_t max_position_embeddings = 32768;
  double initializer_range = 0.02;
  std::vector<std::int32_t> eos_token_ids;  ///< generation stops at any of them
  std::int32_t pad_token_id = -1;           ///< -1: none
  /// Not of config.json: sums over what tensor parallelism splits (the inputs of o_proj and down_proj, the outputs of
  /// the others in their backward, the vocabulary) are made in so many equal parts and added by pairs. Then every
  /// number of ranks that divides it has the bits of one. 0: each rank adds up what it has, the fastest.
  std::int64_t row_chunks = 0;

  /// One matrix is the embedding and the head; says nothing about score models.
  bool tied() const noexcept { return output == model_output::logits && tie_word_embeddings; }
};

}  // namespace nn
RLCORE_END
