// The models of the benchmarks, as Qwen2 configurations, and what a token costs at least.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/input.hpp"

namespace speed {

inline rlcore::nn::config model_config(const std::string& name) {
  rlcore::nn::config c;
  const auto sizes = [&](std::int64_t vocabulary, std::int64_t hidden, std::int64_t intermediate, std::int64_t layers,
                         std::int64_t heads, std::int64_t kv_heads) {
    c.vocab_size = vocabulary, c.hidden_size = hidden, c.intermediate_size = intermediate;
    c.num_hidden_layers = layers, c.num_attention_heads = heads, c.num_key_value_heads = kv_heads;
    c.head_dim = hidden / heads;
  };
  if (name == "1M")  // about a million parameters
    sizes(512, 128, 384, 4, 4, 4);
  else if (name == "124M")  // the size of GPT-2
    sizes(50257, 768, 2048, 12, 12, 12);
  else if (name == "0.5B")  // Qwen2.5-0.5B
    sizes(151936, 896, 4864, 24, 14, 2);
  else
    throw std::invalid_argument("no model " + name + ": expected 1M, 124M or 0.5B");
  return c;
}

/// Sequences of which every token predicts the next one.
struct rows_of_training {
  rlcore::ragged<std::int32_t> inputs;
  rlcore::nn::targets targets;
};
inline rows_of_training training_rows(const rlcore::nn::config& c, std::int64_t sequences, std::int64_t length) {
  rows_of_training rows;
  std::vector<std::int32_t> text(static_cast<std::size_t>(length));
  for (std::int64_t b = 0; b < sequences; ++b) {
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t at = b * length + t;
      text[static_cast<std::size_t>(t)] = static_cast<std::int32_t>(at * 7919 % c.vocab_size);
      rows.targets.row.push_back(static_cast<std::int32_t>(at));
      rows.targets.token.push_back(static_cast<std::int32_t>((at + 1) * 7919 % c.vocab_size));
    }
    rows.inputs.push_back(std::span<const std::int32_t>(text));
  }
  return rows;
}

/// Weights that take part in products, the head's included.
inline double product_weights(const rlcore::nn::config& c) {
  const auto h = static_cast<double>(c.hidden_size), d = static_cast<double>(c.head_dim);
  const double q = d * static_cast<double>(c.num_attention_heads), kv = d * static_cast<double>(c.num_key_value_heads);
  const double layer = h * (q + 2 * kv) + q * h + 3 * h * static_cast<double>(c.intermediate_size);
  return static_cast<double>(c.num_hidden_layers) * layer + h * static_cast<double>(c.vocab_size);
}

/// Operations of attention for one query over `keys` keys in all layers, forward.
inline double attention_operations(const rlcore::nn::config& c, double keys) {
  return 4 * static_cast<double>(c.num_hidden_layers * c.num_attention_heads * c.head_dim) * keys;
}

}  // namespace speed
