// Qwen3-MoE: logits, load-balancing loss and all parameter gradients against transformers
// (tests/reference/moe_parity.py).
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace parity;

const json& reference() {
  static const json golden = read("moe_parity.json");
  return golden;
}

nn::config config_of(const json& spec) {
  nn::config c = dense_config(spec);
  c.model = nn::family::qwen3_moe;
  c.num_experts = spec.at("num_experts");
  c.num_experts_per_tok = spec.at("num_experts_per_tok");
  c.moe_intermediate_size = spec.at("moe_intermediate_size");
  c.norm_topk_prob = spec.at("norm_topk_prob");
  c.decoder_sparse_step = spec.value("decoder_sparse_step", 1);
  if (spec.contains("mlp_only_layers")) c.mlp_only_layers = spec.at("mlp_only_layers").get<std::vector<std::int64_t>>();
  c.router_aux_loss_coef = spec.at("router_aux_loss_coef");
  c.attention_bias = false;
  return c;
}

nn::input replayed(const ragged<std::int32_t>& sequences, std::span<const std::int16_t> experts) {
  nn::input in = sequences;
  in.routed_experts = experts;
  return in;
}

class moe_models : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(moe_models, logits_load_balancing_loss_and_gradients_of_transformers) {
  const auto& [name, set] = GetParam();
  if (!available(set)) GTEST_SKIP() << set << " is not available on this processor";

  const json& golden = reference().at("models").at(name);
  cpu device(1, set);
  nn::causal_lm<cpu> model(device, config_of(golden.at("config")));
  sorted_parameters sorted = fill(model);
  const example batch(reference(), model.settings().vocab_size);
  nn::workspace<cpu> space(device);

  std::vector<std::int16_t> routed_experts;
  if (golden.contains("routed_experts")) {
    for (const json& token : golden.at("routed_experts"))
      for (const json& layer : token)
        for (const json& id : layer) routed_experts.push_back(id.get<std::int16_t>());
    std::vector<float> logp(batch.targets.row.size());
    nn::log_probs(model, space, replayed(batch.sequences, routed_experts), batch.targets,
                  reference().at("temperature").get<float>(), logp, {});
    EXPECT_LT(relative_error(logp, golden.at("logp")), 2e-6);
  } else {
    expect_logits(all_logits(model, space, batch), golden);
  }
  nn::gradients<cpu> grads(model);
  const auto temperature = reference().at("temperature").get<float>();
  nn::forward_backward(model, space, grads, replayed(batch.sequences, routed_experts), batch.targets, temperature, false,
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
  expect_gradients(grads, sorted, golden);
}

INSTANTIATE_TEST_SUITE_P(parity, moe_models,
                         testing::Combine(testing::Values("renormalised", "mixed_layers", "replayed", "replayed_mixed_layers"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
}  // namespace RLCORE_TEST_ID
