// Logits and all parameter gradients against transformers (tests/reference/nn_parity.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/decode.hpp"
#include "rlcore/nn/forward_backward.hpp"
#include "rlcore/nn/log_prob_of.hpp"
#include "rlcore/nn/log_probs.hpp"

namespace {

using namespace rlcore;
using nlohmann::json;

const json& reference() {
  static const json golden = [] {
    std::ifstream in(std::string(RLCORE_REFERENCE_DIR) + "/nn_parity.json");
    return json::parse(in);
  }();
  return golden;
}

/// The generator's formula.
float value(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

nn::config config_of(const json& spec) {
  nn::config c;
  const bool qwen3 = spec.at("family") == "qwen3";
  c.model = qwen3 ? nn::family::qwen3 : nn::family::qwen2;
  c.vocab_size = spec.at("vocab_size");
  c.hidden_size = spec.at("hidden_size");
  c.intermediate_size = spec.at("intermediate_size");
  c.num_hidden_layers = spec.at("num_hidden_layers");
  c.num_attention_heads = spec.at("num_attention_heads");
  c.num_key_value_heads = spec.at("num_key_value_heads");
  c.head_dim = spec.value("head_dim", 0);
  c.tie_word_embeddings = spec.at("tie_word_embeddings");
  c.attention_bias = spec.value("attention_bias", !qwen3);
  c.rope_theta = 10000;
  c.max_position_embeddings = 64;
  return c;
}

struct example {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  std::vector<float> weight, bonus;

  explicit example(std::int64_t vocabulary) {
    int s = 0, row = 0, n = 0;
    for (const int length : reference().at("lengths")) {
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

template <class Values>
double relative_error(const Values& ours, const std::vector<double>& theirs) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    norm += theirs[i] * theirs[i];
  }
  return std::sqrt(difference / norm);
}

class parity : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(parity, logits_and_gradients_of_transformers) {
  const auto& [name, set] = GetParam();
  bool here = false;
  for (const auto* t : cpu_kernels::available()) here = here || set == t->name;
  if (!here) GTEST_SKIP() << set << " is not available on this processor";

  const json& golden = reference().at("models").at(name);
  cpu device(1, set);
  nn::causal_lm<cpu> model(device, config_of(golden.at("config")));
  std::map<std::string, const nn::parameter*> sorted;
  for (const auto& p : model.parameters()) sorted[p.name] = &p;
  std::uint32_t k = 0;
  for (const auto& [key, p] : sorted) {
    for (std::size_t i = 0; i < p->size; ++i) {
      const float v = value(k, static_cast<std::uint32_t>(i));
      model.weights().data()[p->offset + i] = key.find("norm") != std::string::npos ? 1 + v * 0.5f : v;
    }
    ++k;
  }
  const example batch(model.settings().vocab_size);
  nn::workspace<cpu> space(device);

  // Logits of every token, by one prefill of all sequences.
  nn::kv_cache<cpu> cache(device, model.settings(), 3);
  const std::vector<std::int32_t> pages = {1, 2, 0};
  std::vector<nn::decode_chunk> chunks;
  for (std::size_t s = 0; s < 3; ++s)
    for (std::size_t t = 0; t < batch.sequences.length(s); ++t)
      chunks.push_back(
          {batch.sequences.row(s).subspan(t, 1), static_cast<std::int64_t>(t), std::span(pages).subspan(s, 1), true});
  std::vector<float> logits(chunks.size() * static_cast<std::size_t>(model.settings().vocab_size));
  nn::decode(model, space, cache, chunks, logits.data());
  const auto expected = golden.at("logits").get<std::vector<double>>();
  ASSERT_EQ(expected.size(), logits.size());
  EXPECT_LT(relative_error(logits, expected), 2e-6);  // L2; float32 transformers itself: up to 5e-7

  nn::gradients<cpu> grads(model);
  const auto temperature = reference().at("temperature").get<float>();
  nn::forward_backward(model, space, grads, batch.sequences, batch.targets, temperature, false,
                       [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                         EXPECT_LT(relative_error(logp, golden.at("logp")), 2e-6);
                         EXPECT_LT(relative_error(entropy, golden.at("entropy")), 2e-6);
                         std::copy(batch.weight.begin(), batch.weight.end(), dlogp.begin());
                         std::copy(batch.bonus.begin(), batch.bonus.end(), dentropy.begin());
                       });
  ASSERT_EQ(golden.at("gradients").size(), sorted.size());
  for (const auto& [key, values] : golden.at("gradients").items()) {
    ASSERT_TRUE(sorted.count(key)) << key;
    const auto theirs = values.get<std::vector<double>>();
    ASSERT_EQ(theirs.size(), sorted[key]->size) << key;
    const float* ours = grads.data() + sorted[key]->offset;
    EXPECT_LT(relative_error(ours, theirs), 1e-5) << key;  // L2 over the parameter
  }
}

INSTANTIATE_TEST_SUITE_P(models, parity,
                         testing::Combine(testing::Values("qwen2", "qwen2_5_tied", "qwen2_5_untied", "qwen3",
                                                          "qwen3_tied_bias"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
