// Logits and all parameter gradients against transformers (tests/reference/nn_parity.py).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/model/forward_backward.hpp"

namespace RLCORE_TEST_ID {
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
  expect_dense_model(reference(), name, set, config_of);
}

INSTANTIATE_TEST_SUITE_P(parity, models,
                         testing::Combine(testing::Values("qwen2", "qwen2_5_tied", "qwen2_5_untied", "qwen3",
                                                          "qwen3_tied_bias"),
                                          testing::Values("avx512", "avx2", "portable")),
                         [](const auto& each) { return std::get<0>(each.param) + "_" + std::get<1>(each.param); });

}  // namespace
}  // namespace RLCORE_TEST_ID
