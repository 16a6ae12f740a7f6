// Llama and scaled rotary positions against transformers (tests/reference/nn_families.py), and what a family says.
#include "rlcore/nn/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "nn/parity_example.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/nn/attention/rope.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace parity;

const json& reference() {
  static const json golden = read("nn_families.json");
  return golden;
}

/// The keyword arguments of transformers' config as a config.json, read.
nn::config config_of(const json& spec) {
  json root = spec;
  root["model_type"] = spec.value("family", "llama");
  root.erase("family");
  root["rms_norm_eps"] = 1e-6;
  if (!root.contains("max_position_embeddings")) root["max_position_embeddings"] = 64;
  const scratch::folder place;
  scratch::write(place / "config.json", root.dump());
  return checkpoint::read_config(place.path());
}

class family_models : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(family_models, logits_and_gradients_of_transformers) {
  const auto& [name, set] = GetParam();
  if (!available(set)) GTEST_SKIP() << set << " is not available on this processor";
  expect_dense_model(reference(), name, set, config_of);
}

INSTANTIATE_TEST_SUITE_P(parity, family_models,
                         testing::Combine(testing::Values("llama3", "llama_plain_tied", "qwen2_5_yarn"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

TEST(families, llama_score_models_give_the_scores_of_transformers) {
  for (const std::string kind : {"sequence", "token"}) {
    cpu device(1);
    nn::config c = config_of(reference().at("models").at("llama3").at("config"));
    c.output = nn::model_output::score, c.score_bias = kind == "token";
    nn::causal_lm<cpu> model(device, c);
    fill(model);
    nn::workspace<cpu> space(device);
    const example batch(reference(), c.vocab_size);
    std::vector<std::int32_t> rows(batch.sequences.values.size());
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<float> values(rows.size());
    nn::values(model, space, batch.sequences, rows, values);
    EXPECT_LT(relative_error(values, reference().at("scores").at(kind)), 2e-6) << kind;
  }
}

// transformers computes powers in float32: one unit in the last place from ours, as the plain frequencies are.
TEST(families, frequencies_of_published_settings) {
  for (const auto& [name, golden] : reference().at("ropes").items()) {
    json spec = golden.at("config");
    for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads"})
      spec[key] = 2;
    const nn::config c = config_of(spec);
    const auto rope = nn::make_rope_frequencies(c.rope_theta, c.head_dim / 2, c.rope_scaling);
    EXPECT_EQ(rope.attention_factor, golden.at("attention_factor").get<float>()) << name;
    const auto theirs = golden.at("frequencies").get<std::vector<float>>();
    ASSERT_EQ(rope.inverse.size(), theirs.size()) << name;
    for (std::size_t j = 0; j < theirs.size(); ++j)
      EXPECT_NEAR(rope.inverse[j] / theirs[j], 1, 2.4e-7) << name << " " << j;
  }
}

TEST(families, are_found_by_their_model_type) {
  for (const nn::family& f : nn::families) EXPECT_EQ(*nn::find_family(nn::name_of(f)), f);
  EXPECT_EQ(nn::find_family("gpt2"), nullptr);
  EXPECT_TRUE(nn::family::qwen2 == nn::qwen2{});
  EXPECT_FALSE(nn::family::qwen2 == nn::qwen3{});
  EXPECT_EQ(nn::family_names(", ", " or "), "qwen2, qwen3, qwen3_moe, llama or qwen2_5_vl");
}

/// A family of somebody else's: other norms' names, everything else as in Llama.
struct renamed {
  static constexpr nn::family_traits traits{.model_type = "renamed",
                                            .architecture = "Renamed",
                                            .names = {.input_norm = "before", .post_attention_norm = "between"}};
};

TEST(families, of_an_own_namespace_work_as_theirs) {
  cpu device(1);
  nn::config c = config_of(reference().at("models").at("llama3").at("config"));
  c.model = renamed{};
  nn::causal_lm<cpu> model(device, c);
  std::vector<std::string> names;
  for (const nn::parameter& p : model.parameters()) names.push_back(p.name);
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.0.before.weight"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.0.between.weight"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.0.self_attn.q_proj.weight"), 1);
}

TEST(families, adapters_have_every_projection_of_llama) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, config_of(reference().at("models").at("llama_plain_tied").at("config")));
  const nn::lora<cpu> adapter(model, {.rank = 2, .alpha = 4});
  std::vector<std::string> names;
  for (const nn::parameter& p : adapter.parameters()) names.push_back(p.name);
  EXPECT_EQ(names.size(), 2u * 7 * 2);  // layers, projections, A and B
  EXPECT_EQ(std::count(names.begin(), names.end(), "model.layers.1.mlp.down_proj.lora_A.weight"), 1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
