// Adapters: gradients of peft (tests/reference/lora.py), merged weights, and the same bits however the work is split.
#include "rlcore/nn/lora/lora.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "device/cpu/sets.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/forward_backward.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

/// The formula of tests/reference/nn_parity.py.
float formula(std::uint32_t k, std::uint32_t i) {
  std::uint32_t x = i * 2654435761u + k * (40503u * 65537u) + 12345u;
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  return (static_cast<float>(x >> 16) - 32768.0f) / 65536.0f;
}

nn::config tiny(bool score) {
  nn::config c;
  c.model = score ? nn::family::qwen3 : nn::family::qwen2;
  c.output = score ? nn::model_output::score : nn::model_output::logits;
  c.vocab_size = 40, c.hidden_size = 16, c.intermediate_size = 20, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = score ? 6 : 4;
  c.tie_word_embeddings = c.attention_bias = !score;
  c.rope_theta = 10000, c.max_position_embeddings = 64;
  return c;
}

nn::lora_settings settings_of(bool score) {
  nn::lora_settings s{3, 5, {"all-linear"}, 1};
  if (score) s = {4, 8, {"v_proj", "q_proj", "up_proj", "down_proj"}, 1};
  return s;
}

struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  floats weight;
};
constexpr int lengths[] = {7, 5, 13}, first_rows[] = {0, 7, 12};
batch of(std::initializer_list<int> numbers) {
  batch b;
  for (const int s : numbers) {
    std::vector<std::int32_t> ids;
    const auto start = static_cast<std::int32_t>(b.sequences.values.size());
    for (int t = 0; t < lengths[s]; ++t) {
      ids.push_back((11 * s + 7 * t + t * t) % 40);
      b.targets.row.push_back(start + t);
      b.targets.token.push_back((3 * ids.back() + 1) % 40);
      b.weight.push_back(static_cast<float>(5 * (first_rows[s] + t) % 7 - 3) / 4);
    }
    b.sequences.push_back(ids);
  }
  return b;
}

struct rig {
  bool score;
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
  nn::lora<cpu> adapter;
  nn::lora_gradients<cpu> gradients;

  explicit rig(bool score_model, int threads = 1, const std::string& set = {}, compute type = compute::float32)
      : score(score_model),
        device(threads, set, type),
        model(device, tiny(score)),
        space(device),
        adapter(model, settings_of(score)),
        gradients(model, adapter) {
    std::uint32_t k = 0;
    for (const auto& [name, p] : sorted(model.parameters())) {
      for (std::uint32_t i = 0; i < p->size; ++i)
        model.weights().data()[p->offset + i] =
            name.find("norm") != name.npos ? 1 + formula(k, i) * 0.5f : formula(k, i);
      ++k;
    }
    adapter.attach(model);
  }
  static std::map<std::string, const nn::parameter*> sorted(std::span<const nn::parameter> parameters) {
    std::map<std::string, const nn::parameter*> all;
    for (const auto& p : parameters) all[p.name] = &p;
    return all;
  }
  void fill_adapter() {
    std::uint32_t k = 100;
    for (const auto& [name, p] : sorted(adapter.parameters())) {
      if (name.starts_with("score")) continue;
      for (std::uint32_t i = 0; i < p->size; ++i) adapter.values().data()[p->offset + i] = formula(k, i);
      ++k;
    }
    adapter.merge(model);
  }
  floats weights() const { return {model.weights().data(), model.weights().data() + model.size()}; }

  floats train(const std::vector<batch>& micro_batches, bool recompute, floats* out = nullptr) {
    gradients.zero();
    for (const batch& b : micro_batches) {
      const auto keep = [&](std::span<const float> x) {
        if (out) out->insert(out->end(), x.begin(), x.end());
      };
      if (score)
        nn::value_forward_backward(model, space, gradients, b.sequences, b.targets.row, recompute,
                                   [&](std::span<const float> value, std::span<float> slope) {
                                     keep(value);
                                     std::copy(b.weight.begin(), b.weight.end(), slope.begin());
                                   });
      else
        nn::forward_backward(model, space, gradients, b.sequences, b.targets, 1.0f, recompute,
                             [&](std::span<const float> logp, auto, std::span<float> slope, auto) {
                               keep(logp);
                               std::copy(b.weight.begin(), b.weight.end(), slope.begin());
                             });
    }
    return {gradients.data(), gradients.data() + gradients.size()};
  }
};

double relative_error(const float* ours, const std::vector<double>& theirs) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    difference += std::pow(static_cast<double>(ours[i]) - theirs[i], 2);
    norm += theirs[i] * theirs[i];
  }
  return std::sqrt(difference / norm);
}

TEST(lora, gradients_are_those_of_peft) {
  const auto golden = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/lora.json"));
  for (const bool score : {false, true})
    for (const std::string& set : rlcore_test::instruction_sets()) {
      const nlohmann::json& expected = golden.at("cases").at(score ? "score" : "causal");
      rig r(score, 1, set);
      r.fill_adapter();
      floats out;
      const floats gradient = r.train({of({0, 1, 2})}, false, &out);
      EXPECT_LT(relative_error(out.data(), expected.at("out")), 2e-6) << set;
      ASSERT_EQ(expected.at("gradients").size(), r.adapter.parameters().size());
      for (const nn::parameter& p : r.adapter.parameters())
        EXPECT_LT(relative_error(gradient.data() + p.offset, expected.at("gradients").at(p.name)), 1e-5)
            << set << " " << p.name;
    }
}

TEST(lora, no_bit_depends_on_splits_threads_or_recomputation) {
  for (const bool score : {false, true})
    for (const compute type : {compute::float32, compute::bfloat16}) {
      rig one(score, 1, {}, type), three(score, 3, {}, type);
      one.fill_adapter(), three.fill_adapter();
      EXPECT_EQ(one.weights(), three.weights());
      const floats whole = one.train({of({0, 1, 2})}, false);
      EXPECT_EQ(whole, one.train({of({0, 1, 2})}, true));
      EXPECT_EQ(whole, one.train({of({0}), of({1}), of({2})}, true));
      EXPECT_EQ(whole, one.train({of({0, 1}), of({2})}, false));
      EXPECT_EQ(whole, three.train({of({0, 1, 2})}, false));
    }
}

TEST(lora, weights_are_base_plus_scaled_product_whatever_the_compute_type) {
  for (const compute type : {compute::float32, compute::bfloat16}) {
    rig r(false, 1, {}, type);
    const floats base = r.weights();
    EXPECT_EQ(std::count_if(base.begin(), base.end(), [](float x) { return std::isnan(x); }), 0);
    r.fill_adapter();
    const floats merged = r.weights();
    std::map<std::string, const nn::parameter*> parts = rig::sorted(r.adapter.parameters());
    std::size_t adapted = 0;
    for (const nn::parameter& p : r.model.parameters()) {
      const std::string module = p.name.substr(0, p.name.size() - 7);
      if (!parts.count(module + ".lora_A.weight")) {
        for (std::size_t i = 0; i < p.size; ++i) ASSERT_EQ(merged[p.offset + i], base[p.offset + i]) << p.name;
        continue;
      }
      ++adapted;
      const float *a = r.adapter.values().data() + parts[module + ".lora_A.weight"]->offset,
                  *b = r.adapter.values().data() + parts[module + ".lora_B.weight"]->offset;
      const auto inputs = static_cast<std::size_t>(p.shape[1]);
      for (std::size_t i = 0; i < p.size; ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < 3; ++k)
          sum += static_cast<double>(b[i / inputs * 3 + k]) * static_cast<double>(a[k * inputs + i % inputs]);
        ASSERT_NEAR(merged[p.offset + i], base[p.offset + i] + 5.0 / 3 * sum, 2e-7) << p.name;
      }
    }
    EXPECT_EQ(adapted, 14u);
    floats inside;
    r.adapter.with_base(r.model, [&] { inside = r.weights(); });
    EXPECT_EQ(inside, base);
    EXPECT_EQ(r.weights(), merged);
    EXPECT_THROW(r.adapter.with_base(r.model, [] { throw std::runtime_error("x"); }), std::runtime_error);
    EXPECT_EQ(r.weights(), merged);
  }
}

TEST(lora, begins_at_the_base_with_a_uniform_in_one_over_the_root_of_the_inputs) {
  rig r(false);
  const floats start = r.weights();
  floats inside;
  r.adapter.with_base(r.model, [&] { inside = r.weights(); });
  EXPECT_EQ(start, inside);
  double largest = 0, squares = 0, count = 0;
  for (const nn::parameter& p : r.adapter.parameters())
    for (std::size_t i = 0; i < p.size; ++i) {
      const double x = static_cast<double>(r.adapter.values().data()[p.offset + i]);
      if (p.name.ends_with("lora_B.weight")) {
        ASSERT_EQ(x, 0) << p.name;
      } else {
        const double scaled = x * std::sqrt(static_cast<double>(p.shape[1]));
        largest = std::max(largest, std::abs(scaled)), squares += scaled * scaled, ++count;
      }
    }
  EXPECT_LE(largest, 1);
  EXPECT_GT(largest, 0.99);
  EXPECT_NEAR(squares / count, 1.0 / 3, 0.03);
}

TEST(lora, settings_are_checked) {
  const auto fault = [](const nn::lora_settings& s) {
    try {
      nn::check_lora(s);
    } catch (const config_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(fault({8, 16, {"all-linear"}}), "");
  EXPECT_EQ(nn::check_lora({8, 16, {"down_proj", "q_proj"}}), (std::vector<std::string>{"q_proj", "down_proj"}));
  EXPECT_NE(fault({0, 16, {"all-linear"}}).find("rank is 0"), std::string::npos);
  EXPECT_NE(fault({8, 0, {"all-linear"}}).find("alpha is 0"), std::string::npos);
  EXPECT_NE(fault({8, 16, {}}).find("no target modules"), std::string::npos);
  EXPECT_NE(fault({8, 16, {"all-linear", "q_proj"}}).find("stands alone"), std::string::npos);
  EXPECT_NE(fault({8, 16, {"q_prj"}}).find("(did you mean 'q_proj'"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
