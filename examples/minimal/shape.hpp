// The model of the examples without options: a Qwen2 of 19 thousand parameters.
#pragma once

#include <cstdint>

#include "rlcore/nn/config.hpp"

/// The names are those of Hugging Face's config.json. `output`: logits of a language model, or the score of a critic or
/// reward model.
inline rlcore::nn::config shape(std::int64_t vocabulary,
                                rlcore::nn::model_output output = rlcore::nn::model_output::logits) {
  rlcore::nn::config c;
  c.vocab_size = vocabulary, c.hidden_size = 32, c.intermediate_size = 64, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 64;
  c.initializer_range = 0.1, c.output = output;
  return c;
}
