// The weights and the batch of tests/reference/nn_parity.py and moe_parity.py, and what is expected of all families.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/gradients.hpp"

namespace parity {

using namespace rlcore;
using nlohmann::json;

inline json read(const std::string& name) {
  std::ifstream in(std::string(RLCORE_REFERENCE_DIR) + "/" + name);
  return json::parse(in);
}

/// The generator's formula.
inline float value(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

using sorted_parameters = std::map<std::string, const nn::parameter*>;

inline sorted_parameters fill(nn::causal_lm<cpu>& model) {
  sorted_parameters sorted;
  for (const auto& p : model.parameters()) sorted[p.name] = &p;
  std::uint32_t k = 0;
  for (const auto& [key, p] : sorted) {
    for (std::size_t i = 0; i < p->size; ++i) {
      const float v = value(k, static_cast<std::uint32_t>(i));
      model.weights().data()[p->offset + i] = key.find("norm") != std::string::npos ? 1 + v * 0.5f : v;
    }
    ++k;
  }
  return sorted;
}

struct example {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  std::vector<float> weight, bonus;

  example(const json& golden, std::int64_t vocabulary) {
    int s = 0, row = 0, n = 0;
    for (const int length : golden.at("lengths")) {
      std::vector<std::int32_t> ids;
      for (int t = 0; t < length; ++t) ids.push_back(static_cast<std::int32_t>((11 * s + 7 * t + t * t) % vocabulary));
      sequences.push_back(ids);
      for (int t = length > 1 ? 1 : 0, j = 0; t < length; ++t, ++j) {
        targets.row.push_back(row + t);
        targets.token.push_back(static_cast<std::int32_t>((3 * ids[static_cast<std::size_t>(t)] + 1) % vocabulary));
        weight.push_back(static_cast<float>((n + j) * 5 % 7 - 3) / 4);
        bonus.push_back(static_cast<float>((n + j) * 3 % 5 - 1) / 8);
      }
      n = static_cast<int>(targets.row.size());
      row += length;
      ++s;
    }
  }
};

/// Logits of every token of the three sequences, by one prefill of all of them.
inline std::vector<float> all_logits(nn::causal_lm<cpu>& model, nn::workspace<cpu>& space, const example& batch) {
  nn::kv_cache<cpu> cache(model.device(), model.settings(), 3);
  const std::vector<std::int32_t> pages = {1, 2, 0};
  std::vector<nn::decode_chunk> chunks;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t t = 0; t < batch.sequences.length(s); ++t)
      chunks.push_back(
          {batch.sequences.row(s).subspan(t, 1), static_cast<std::int64_t>(t), std::span(pages).subspan(s, 1), true});
  std::vector<float> logits(chunks.size() * static_cast<std::size_t>(model.settings().vocab_size));
  nn::decode(model, space, cache, chunks, logits.data());
  return logits;
}

/// In the L2 norm; the absolute one of an expert without tokens, whose gradient is 0.
template <class Values>
double relative_error(const Values& ours, const std::vector<double>& theirs) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    norm += theirs[i] * theirs[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

/// What all families have; attention_bias is the caller's to set.
inline nn::config dense_config(const json& spec) {
  nn::config c;
  c.vocab_size = spec.at("vocab_size");
  c.hidden_size = spec.at("hidden_size");
  c.intermediate_size = spec.at("intermediate_size");
  c.num_hidden_layers = spec.at("num_hidden_layers");
  c.num_attention_heads = spec.at("num_attention_heads");
  c.num_key_value_heads = spec.at("num_key_value_heads");
  c.head_dim = spec.value("head_dim", 0);
  c.tie_word_embeddings = spec.at("tie_word_embeddings");
  c.rope_theta = 10000;
  c.max_position_embeddings = 64;
  return c;
}

inline bool available(const std::string& set) {
  for (const auto* t : cpu_kernels::available())
    if (set == t->name) return true;
  return false;
}

inline void expect_logits(const std::vector<float>& ours, const json& golden) {
  const auto theirs = golden.at("logits").get<std::vector<double>>();
  ASSERT_EQ(theirs.size(), ours.size());
  EXPECT_LT(relative_error(ours, theirs), 2e-6);  // L2; float32 transformers itself: up to 5e-7
}

inline void expect_gradients(const nn::gradients<cpu>& ours, sorted_parameters& sorted, const json& golden) {
  ASSERT_EQ(golden.at("gradients").size(), sorted.size());
  for (const auto& [key, values] : golden.at("gradients").items()) {
    ASSERT_TRUE(sorted.count(key)) << key;
    const auto theirs = values.get<std::vector<double>>();
    ASSERT_EQ(theirs.size(), sorted[key]->size) << key;
    EXPECT_LT(relative_error(ours.data() + sorted[key]->offset, theirs), 1e-5) << key;  // L2 over the parameter
  }
}

/// Logits, log-probs, entropies and gradients of the dense model `name` of `reference` on one instruction set; its
/// settings are read by config_of.
template <class ReadConfig>
void expect_dense_model(const json& reference, const std::string& name, const std::string& set,
                        ReadConfig&& config_of) {
  const json& golden = reference.at("models").at(name);
  cpu device(1, set);
  nn::causal_lm<cpu> model(device, config_of(golden.at("config")));
  sorted_parameters sorted = fill(model);
  const example batch(reference, model.settings().vocab_size);
  nn::workspace<cpu> space(device);

  expect_logits(all_logits(model, space, batch), golden);

  nn::gradients<cpu> grads(model);
  nn::forward_backward(model, space, grads, batch.sequences, batch.targets, reference.at("temperature").get<float>(),
                       false, [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                         EXPECT_LT(relative_error(logp, golden.at("logp")), 2e-6);
                         EXPECT_LT(relative_error(entropy, golden.at("entropy")), 2e-6);
                         std::copy(batch.weight.begin(), batch.weight.end(), dlogp.begin());
                         std::copy(batch.bonus.begin(), batch.bonus.end(), dentropy.begin());
                       });
  expect_gradients(grads, sorted, golden);
}

}  // namespace parity
