// Adapters of a model that reads images: which modules have them, their gradients, and that a frozen tower stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/parity_example.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/gradients.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

nn::config tiny() {
  nn::config c;
  c.model = nn::qwen2_5_vl{};
  c.vocab_size = 40, c.hidden_size = 16, c.intermediate_size = 20, c.num_hidden_layers = 2;
  c.num_attention_heads = 2, c.num_key_value_heads = 1, c.head_dim = 8;
  c.max_position_embeddings = 64;
  c.mrope_section = {1, 1, 2};
  c.image_token_id = 30, c.video_token_id = 31;
  c.vision = nn::vision_config{.depth = 2,
                               .hidden_size = 16,
                               .num_heads = 2,
                               .intermediate_size = 12,
                               .out_hidden_size = 16,
                               .patch_size = 2,
                               .window_size = 8,
                               .fullatt_block_indexes = {1}};
  return c;
}

void fill(std::span<float> values, std::uint32_t k) {
  for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = parity::value(k, i) * 0.5f;
}

/// Two rows with images and one without.
struct batch {
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> images;
  floats patches = floats(3 * 16 * 24);
  nn::targets targets;

  batch() {
    fill(patches, 900);
    std::size_t used = 0;
    for (const std::vector<nn::patch_grid>& grids :
         {std::vector<nn::patch_grid>{{4, 4}}, {}, {{2, 4}, {4, 2}, {2, 2}}}) {
      std::vector<std::int32_t> ids = {3, 5};
      std::vector<nn::image_patches> seen;
      for (const nn::patch_grid& g : grids) {
        const auto size = static_cast<std::size_t>(g.height * g.width * 24);
        seen.push_back({g, std::span(patches).subspan(used, size)});
        used += size;
        ids.insert(ids.end(), static_cast<std::size_t>(g.height * g.width / 4), 30);
        ids.push_back(7);
      }
      ids.insert(ids.end(), {11, 2, 9});
      for (std::size_t t = 1; t < ids.size(); ++t) {
        if (ids[t] == 30) continue;
        targets.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
        targets.token.push_back(ids[t]);
      }
      tokens.push_back(ids), images.push_back(seen);
    }
  }
};

template <class Gradients>
floats run(const nn::causal_lm<cpu>& model, Gradients& grads, bool recompute = false) {
  const batch b;
  nn::workspace<cpu> space(model.device());
  nn::forward_backward(model, space, grads, nn::input(b.tokens, b.images), b.targets, 1.0f, recompute,
                       [&](auto logp, auto, auto dlogp, auto) {
                         for (std::size_t i = 0; i < logp.size(); ++i)
                           dlogp[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
                       });
  const auto& flat = grads.flat();
  return {flat.data(), flat.data() + flat.size()};
}

struct rig {
  cpu device{1};
  nn::causal_lm<cpu> model{device, tiny()};
  nn::lora<cpu> adapter;

  explicit rig(nn::lora_settings s) : adapter((initial(), model), std::move(s)) {
    for (std::uint32_t k = 0; const nn::parameter& p : adapter.parameters())
      fill({adapter.values().data() + p.offset, p.size}, 300 + k++);
    adapter.attach(model);
  }
  void initial() {
    std::uint32_t k = 0;
    for (const nn::parameter& p : model.parameters()) {
      fill({model.weights().data() + p.offset, p.size}, k++);
      if (p.name.find("norm") != std::string::npos || p.name.find("ln_q") != std::string::npos)
        for (std::size_t i = 0; i < p.size; ++i) model.weights().data()[p.offset + i] += 1;
    }
  }
  std::vector<std::string> modules() const {
    std::vector<std::string> names;
    for (const nn::parameter& p : adapter.parameters())
      if (p.name.ends_with(".lora_A.weight")) names.push_back(p.name.substr(0, p.name.size() - 14));
    return names;
  }
};

bool of_tower(const std::string& name) { return name.starts_with("visual."); }

TEST(vision_lora, modules_as_peft_chooses_them) {
  const auto count = [](nn::lora_settings s, bool tower) {
    const rig r(std::move(s));
    const auto names = r.modules();
    return std::count_if(names.begin(), names.end(), [&](const std::string& n) { return of_tower(n) == tower; });
  };
  EXPECT_EQ(count({2, 4}, false), 2 * 7);
  EXPECT_EQ(count({2, 4}, true), 2 * 5 + 2);  // qkv, proj and the MLP of each block, and the merger's two
  EXPECT_EQ(count({2, 4, {"q_proj", "v_proj"}}, false), 4);
  EXPECT_EQ(count({2, 4, {"q_proj", "v_proj"}}, true), 0);
  EXPECT_EQ(count({2, 4, {"gate_proj"}}, true), 2);  // the tower has modules of that name
  EXPECT_EQ(count({2, 4, {"qkv", "attn.proj", "mlp.0", "mlp.2"}}, true), 6);
  EXPECT_EQ(count({2, 4, {"visual.merger.mlp.0"}}, true), 1);
  EXPECT_EQ(count({2, 4, {"model.visual.merger.mlp.0"}}, true), 1);
  EXPECT_EQ(count({2, 4, {"model.language_model.layers.1.mlp.up_proj"}}, false), 1);
  nn::lora_settings s{2, 4};
  s.exclude = {"qkv", "up_proj"};
  EXPECT_EQ(count(s, true), 2 * 3 + 2);
  EXPECT_EQ(count(s, false), 2 * 6);
  std::vector<std::string> asked;
  s.exclude.clear();
  s.excluded = [&](const std::string& name) {
    asked.push_back(name);
    return name.starts_with("model.visual.");
  };
  EXPECT_EQ(count(s, true), 0);
  EXPECT_EQ(count(s, false), 2 * 7);
  EXPECT_THAT(asked, testing::IsSupersetOf({"visual.merger.mlp.0", "model.visual.merger.mlp.0",
                                            "model.language_model.layers.0.mlp.up_proj"}));
}

TEST(vision_lora, names_that_no_module_has) {
  const auto fault = [](nn::lora_settings s) -> std::string {
    try {
      rig r(std::move(s));
    } catch (const config_error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(fault({2, 4, {"proj"}}), testing::HasSubstr("target module 'proj' is not one of all-linear"));
  EXPECT_THAT(fault({2, 4, {"visual.merger.mlp.1"}}), testing::HasSubstr("'visual.merger.mlp.1' is not part of"));
  nn::lora_settings s{2, 4, {"mlp.0"}};
  s.excluded = [](const std::string&) { return true; };
  EXPECT_THAT(fault(s), testing::HasSubstr("exclude_modules leaves no target module"));
  s.exclude = {"visual"};
  EXPECT_THAT(fault(s), testing::HasSubstr("excluded module 'visual' is not one of"));
}

// With s = alpha / rank: dB = s dW A^T and dA = s B^T dW, dW being the gradient of the merged weight.
void expect_gradients(const std::vector<std::string>& modules, int of_the_tower) {
  rig r({3, 5, modules});
  nn::gradients<cpu> whole(r.model);
  const floats dw = run(r.model, whole);
  std::map<std::string, const nn::parameter*> weights;
  for (const nn::parameter& p : r.model.parameters()) weights[p.name] = &p;
  nn::lora_gradients<cpu> grads(r.model, r.adapter);
  const floats ours = run(r.model, grads);
  ASSERT_EQ(ours.size(), r.adapter.size());
  std::map<std::string, const nn::parameter*> adapters;
  for (const nn::parameter& p : r.adapter.parameters()) adapters[p.name] = &p;
  const double s = 5.0 / 3;
  int towers = 0;
  for (const std::string& module : r.modules()) {
    const nn::parameter &w = *weights.at(module + ".weight"), &a = *adapters.at(module + ".lora_A.weight"),
                        &b = *adapters.at(module + ".lora_B.weight");
    const auto outputs = static_cast<std::size_t>(w.shape[0]), inputs = static_cast<std::size_t>(w.shape[1]);
    const float *A = r.adapter.values().data() + a.offset, *B = r.adapter.values().data() + b.offset,
                *dW = dw.data() + w.offset;
    double norm = 0, wrong = 0;
    const auto compare = [&](double expected, float got) {
      norm += expected * expected, wrong += (expected - got) * (expected - got);
    };
    for (std::size_t k = 0; k < 3; ++k) {
      for (std::size_t o = 0; o < outputs; ++o) {
        double sum = 0;
        for (std::size_t i = 0; i < inputs; ++i) sum += static_cast<double>(dW[o * inputs + i]) * A[k * inputs + i];
        compare(s * sum, ours[b.offset + o * 3 + k]);
      }
      for (std::size_t i = 0; i < inputs; ++i) {
        double sum = 0;
        for (std::size_t o = 0; o < outputs; ++o) sum += static_cast<double>(dW[o * inputs + i]) * B[o * 3 + k];
        compare(s * sum, ours[a.offset + k * inputs + i]);
      }
    }
    EXPECT_GT(norm, 0) << module;
    EXPECT_LT(std::sqrt(wrong / norm), 1e-5) << module;
    towers += of_tower(module);
  }
  EXPECT_EQ(towers, of_the_tower);

  nn::lora_gradients<cpu> again(r.model, r.adapter);
  EXPECT_EQ(run(r.model, again, true), ours);  // recompute
}

TEST(vision_lora, gradients_are_those_of_the_merged_weights) {
  expect_gradients({"all-linear"}, 12);
  expect_gradients({"q_proj", "v_proj"}, 0);
  expect_gradients({"qkv", "mlp.2"}, 3);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
