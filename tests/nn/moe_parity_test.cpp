// Qwen3-MoE: logits, load-balancing loss and all parameter gradients against transformers
// (tests/reference/moe_parity.py).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/forward_backward.hpp"

namespace {

using namespace parity;

const json& reference() {
  static const json golden = read("moe_parity.json");
  return golden;
}

nn::config config_of(const json& spec) {
  nn::config c;
  c.model = nn::family::qwen3_moe;
  c.vocab_size = spec.at("vocab_size");
  c.hidden_size = spec.at("hidden_size");
  c.intermediate_size = spec.at("intermediate_size");
  c.num_hidden_layers = spec.at("num_hidden_layers");
  c.num_attention_heads = spec.at("num_attention_heads");
  c.num_key_value_heads = spec.at("num_key_value_heads");
  c.head_dim = spec.at("head_dim");
  c.tie_word_embeddings = spec.at("tie_word_embeddings");
  c.num_experts = spec.at("num_experts");
  c.num_experts_per_tok = spec.at("num_experts_per_tok");
  c.moe_intermediate_size = spec.at("moe_intermediate_size");
  c.norm_topk_prob = spec.at("norm_topk_prob");
  c.decoder_sparse_step = spec.value("decoder_sparse_step", 1);
  if (spec.contains("mlp_only_layers")) c.mlp_only_layers = spec.at("mlp_only_layers").get<std::vector<std::int64_t>>();
  c.router_aux_loss_coef = spec.at("router_aux_loss_coef");
  c.attention_bias = false;
  c.rope_theta = 10000;
  c.max_position_embeddings = 64;
  return c;
}

class moe_models : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(moe_models, logits_load_balancing_loss_and_gradients_of_transformers) {
  const auto& [name, set] = GetParam();
  bool here = false;
  for (const auto* t : cpu_kernels::available()) here = here || set == t->name;
  if (!here) GTEST_SKIP() << set << " is not available on this processor";

  const json& golden = reference().at("models").at(name);
  cpu device(1, set);
  nn::causal_lm<cpu> model(device, config_of(golden.at("config")));
  sorted_parameters sorted = fill(model);
  const example batch(reference(), model.settings().vocab_size);
  nn::workspace<cpu> space(device);

  const std::vector<float> logits = all_logits(model, space, batch);
  const auto expected = golden.at("logits").get<std::vector<double>>();
  ASSERT_EQ(expected.size(), logits.size());
  EXPECT_LT(relative_error(logits, expected), 2e-6);  // L2; float32 transformers itself: up to 4e-7

  nn::gradients<cpu> grads(model);
  const auto temperature = reference().at("temperature").get<float>();
  nn::forward_backward(model, space, grads, batch.sequences, batch.targets, temperature, false,
                       [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                         EXPECT_LT(relative_error(logp, golden.at("logp")), 2e-6);
                         EXPECT_LT(relative_error(entropy, golden.at("entropy")), 2e-6);
                         // All tokens of the step are in this one pass, so its own counts are those of the step.
                         EXPECT_NEAR(nn::load_balancing_loss(space.routed),
                                     golden.at("load_balancing_loss").get<double>(), 2e-6);
                         if (const double coefficient = model.settings().router_aux_loss_coef; coefficient > 0)
                           grads.balance(nn::load_balancing_slopes(space.routed, coefficient));
                         std::copy(batch.weight.begin(), batch.weight.end(), dlogp.begin());
                         std::copy(batch.bonus.begin(), batch.bonus.end(), dentropy.begin());
                       });
  EXPECT_EQ(space.routed.rows(), model.settings().sparse_layers() * 27);
  ASSERT_EQ(golden.at("gradients").size(), sorted.size());
  for (const auto& [key, values] : golden.at("gradients").items()) {
    ASSERT_TRUE(sorted.count(key)) << key;
    const auto theirs = values.get<std::vector<double>>();
    ASSERT_EQ(theirs.size(), sorted[key]->size) << key;
    const float* ours = grads.data() + sorted[key]->offset;
    EXPECT_LT(relative_error(ours, theirs), 1e-5) << key;  // L2; float32 transformers itself: up to 4e-6
  }
}

INSTANTIATE_TEST_SUITE_P(parity, moe_models,
                         testing::Combine(testing::Values("renormalised", "mixed_layers"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
