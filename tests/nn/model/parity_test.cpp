// Logits and all parameter gradients against transformers (tests/reference/nn_parity.py).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/model/forward_backward.hpp"

namespace {

using namespace parity;

const json& reference() {
  static const json golden = read("nn_parity.json");
  return golden;
}

nn::config config_of(const json& spec) {
  nn::config c = dense_config(spec);
  const bool qwen3 = spec.at("family") == "qwen3";
  c.model = qwen3 ? nn::family::qwen3 : nn::family::qwen2;
  c.attention_bias = spec.value("attention_bias", !qwen3);
  return c;
}

class models : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(models, logits_and_gradients_of_transformers) {
  const auto& [name, set] = GetParam();
  if (!available(set)) GTEST_SKIP() << set << " is not available on this processor";

  const json& golden = reference().at("models").at(name);
  cpu device(1, set);
  nn::causal_lm<cpu> model(device, config_of(golden.at("config")));
  sorted_parameters sorted = fill(model);
  const example batch(reference(), model.settings().vocab_size);
  nn::workspace<cpu> space(device);

  expect_logits(all_logits(model, space, batch), golden);

  nn::gradients<cpu> grads(model);
  const auto temperature = reference().at("temperature").get<float>();
  nn::forward_backward(model, space, grads, batch.sequences, batch.targets, temperature, false,
                       [&](auto logp, auto entropy, auto dlogp, auto dentropy) {
                         EXPECT_LT(relative_error(logp, golden.at("logp")), 2e-6);
                         EXPECT_LT(relative_error(entropy, golden.at("entropy")), 2e-6);
                         std::copy(batch.weight.begin(), batch.weight.end(), dlogp.begin());
                         std::copy(batch.bonus.begin(), batch.bonus.end(), dentropy.begin());
                       });
  expect_gradients(grads, sorted, golden);
}

INSTANTIATE_TEST_SUITE_P(parity, models,
                         testing::Combine(testing::Values("qwen2", "qwen2_5_tied", "qwen2_5_untied", "qwen3",
                                                          "qwen3_tied_bias"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
