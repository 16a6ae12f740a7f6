// Names, shapes and initial values of the parameters, refusal of sizes that do not fit, and what a steady state
// allocates.
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/optim/adamw.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config qwen2_5_0_5b() {
  nn::config c;
  c.vocab_size = 151936;
  c.hidden_size = 896;
  c.intermediate_size = 4864;
  c.num_hidden_layers = 24;
  c.num_attention_heads = 14;
  c.num_key_value_heads = 2;
  return c;
}

nn::config tiny() {
  nn::config c;
  c.vocab_size = 100;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  return c;
}

/// A device without memory, to lay out a large model.
class layout_only : public cpu {
 public:
  using cpu::cpu;
  void* allocate(std::size_t) { return nullptr; }
  void release(void*) noexcept {}
};

TEST(causal_lm, size_of_qwen2_5_0_5b) {
  any_device_of<layout_only> device(1);
  const nn::causal_lm<any_device> model(device, qwen2_5_0_5b());
  EXPECT_EQ(model.size(), 494032768u);         // the published checkpoint's number of parameters
  EXPECT_EQ(model.parameters().size(), 290u);  // and of tensors
  EXPECT_EQ(model.settings().head_dim, 64);
  std::size_t offset = 0;
  for (const auto& p : model.parameters()) {
    EXPECT_EQ(p.offset, offset) << p.name;
    offset += p.size;
  }
  EXPECT_EQ(offset, model.size());
}

TEST(causal_lm, names_of_qwen3) {
  any_device_of<layout_only> device(1);
  nn::config c = tiny();
  c.model = nn::family::qwen3;
  c.attention_bias = false;
  c.tie_word_embeddings = false;
  c.head_dim = 10;
  c.num_hidden_layers = 1;
  const nn::causal_lm<any_device> model(device, c);
  std::string text;
  for (const auto& p : model.parameters()) {
    text += p.name;
    for (const auto e : p.shape) text += " " + std::to_string(e);
    text += "\n";
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(text, "model.embed_tokens.weight 100 32\n" + layer + "input_layernorm.weight 32\n" + layer +
                      "self_attn.q_proj.weight 40 32\n" + layer + "self_attn.k_proj.weight 20 32\n" + layer +
                      "self_attn.v_proj.weight 20 32\n" + layer + "self_attn.q_norm.weight 10\n" + layer +
                      "self_attn.k_norm.weight 10\n" + layer + "self_attn.o_proj.weight 32 40\n" + layer +
                      "post_attention_layernorm.weight 32\n" + layer + "mlp.gate_proj.weight 48 32\n" + layer +
                      "mlp.up_proj.weight 48 32\n" + layer + "mlp.down_proj.weight 32 48\n" +
                      "model.norm.weight 32\nlm_head.weight 100 32\n");
}

TEST(causal_lm, initial_values) {
  cpu device(1);
  nn::causal_lm<cpu> a(device, tiny()), b(device, tiny());
  a.initialize(7);
  b.initialize(7);
  EXPECT_TRUE(std::equal(a.weights().data(), a.weights().data() + a.size(), b.weights().data()));
  for (const auto& p : a.parameters()) {
    const float* w = a.weights().data() + p.offset;
    if (p.shape.size() == 1) {
      const float expected = p.name.ends_with(".bias") ? 0.0f : 1.0f;
      for (std::size_t i = 0; i < p.size; ++i) EXPECT_EQ(w[i], expected) << p.name;
      continue;
    }
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < p.size; ++i)
      mean += static_cast<double>(w[i]), square += static_cast<double>(w[i]) * static_cast<double>(w[i]);
    const auto n = static_cast<double>(p.size);
    EXPECT_NEAR(mean / n, 0, 5 * 0.02 / std::sqrt(n)) << p.name;
    EXPECT_NEAR(std::sqrt(square / n), 0.02, 5 * 0.02 / std::sqrt(2 * n)) << p.name;
  }
  b.initialize(8);
  EXPECT_NE(a.weights().data()[0], b.weights().data()[0]);
}

void expect_refused(nn::config c, const std::string& message) {
  cpu device(1);
  try {
    const nn::causal_lm<cpu> model(device, c);
    FAIL() << message;
  } catch (const config_error& e) {
    EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
  }
}

TEST(causal_lm, sizes_that_do_not_fit) {
  nn::config c = tiny();
  c.vocab_size = 0;
  expect_refused(c, "vocab_size must be positive, got 0");
  c = tiny();
  c.num_key_value_heads = 3;
  expect_refused(c, "num_attention_heads 4 is not a multiple of num_key_value_heads 3");
  c = tiny();
  c.hidden_size = 34;
  expect_refused(c, "hidden_size 34 is not a multiple of num_attention_heads 4");
  c.head_dim = 7;
  expect_refused(c, "head_dim must be even");
}

struct example {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  explicit example(int length) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
    std::iota(ids.begin(), ids.end(), 3);
    sequences.push_back(ids);
    for (int t = 1; t < length; ++t) {
      targets.row.push_back(t - 1);
      targets.token.push_back(ids[static_cast<std::size_t>(t)]);
    }
  }
};

TEST(causal_lm, bad_arguments) {
  cpu device(1);
  nn::config c = tiny();
  c.max_position_embeddings = 20;
  nn::causal_lm<cpu> model(device, c);
  model.initialize(1);
  nn::workspace<cpu> space(device);
  const auto score = [&](const example& e, float temperature, std::size_t room) {
    std::vector<float> logp(room);
    nn::log_probs(model, space, e.sequences, e.targets, temperature, logp, {});
  };
  score(example(20), 1, 19);
  EXPECT_THROW(score(example(21), 1, 20), std::invalid_argument);  // longer than max_position_embeddings
  EXPECT_THROW(score(example(5), 1, 5), std::invalid_argument);
  EXPECT_THROW(score(example(5), 0, 4), std::invalid_argument);
  example e(5);
  e.targets.token[2] = 100;
  EXPECT_THROW(score(e, 1, 4), std::invalid_argument);
  e = example(5);
  e.targets.row[1] = 5;
  EXPECT_THROW(score(e, 1, 4), std::invalid_argument);
  e = example(5);
  e.sequences.values[0] = -1;
  EXPECT_THROW(score(e, 1, 4), std::invalid_argument);

  nn::kv_cache<cpu> cache(device, c, 2);
  std::vector<float> logits(100);
  const auto feed = [&](std::vector<std::int32_t> ids, std::int64_t position, std::vector<std::int32_t> pages) {
    const nn::decode_chunk chunk{ids, position, pages, true};
    nn::decode(model, space, cache, {&chunk, 1}, logits.data());
  };
  feed({1}, 0, {1});
  feed({1}, 19, {1, 0});
  EXPECT_THROW(feed({100}, 0, {0}), std::invalid_argument);
  EXPECT_THROW(feed({1}, 0, {2}), std::invalid_argument);
  EXPECT_THROW(feed({1}, 0, {-1}), std::invalid_argument);
  EXPECT_THROW(feed({1}, -1, {0}), std::invalid_argument);
  EXPECT_THROW(feed({1}, 20, {0}), std::invalid_argument);
  EXPECT_THROW(feed({1, 1}, 19, {0}), std::invalid_argument);
  EXPECT_THROW(feed({1}, 0, {}), std::invalid_argument);
  EXPECT_THROW(feed({}, 0, {0}), std::invalid_argument);
}

TEST(causal_lm, nothing_is_scored_of_an_empty_batch) {
  cpu device(1);
  nn::causal_lm<cpu> model(device, tiny());
  model.initialize(1);
  nn::workspace<cpu> space(device);
  nn::gradients<cpu> grads(model);
  example e(1);
  int calls = 0;
  nn::forward_backward(model, space, grads, e.sequences, e.targets, 1, false, [&](auto logp, auto, auto, auto) {
    EXPECT_TRUE(logp.empty());
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(optim::global_norm(device, grads), 0);
}

TEST(causal_lm, a_steady_step_allocates_no_device_memory) {
  counted_device counted;
  any_device& device = counted.device;
  nn::causal_lm<any_device> model(device, tiny());
  model.initialize(1);
  nn::workspace<any_device> space(device);
  nn::gradients<any_device> grads(model);
  optim::adamw<any_device> optimizer(device, model.size());
  const auto step = [&](int length) {
    const example e(length);
    grads.zero();
    nn::forward_backward(model, space, grads, e.sequences, e.targets, 1, true, [](auto, auto, auto dlogp, auto) {
      for (float& d : dlogp) d = -1;
    });
    optimizer.step(model.weights(), grads, 1e-3, optim::clip_scale(optim::global_norm(device, grads), 1));
  };
  step(60);
  step(60);
  const std::size_t before = counted.memory.allocations;
  for (const int length : {60, 10, 33, 60}) step(length);
  EXPECT_EQ(counted.memory.allocations, before);
}

/// Layer after layer of a pass takes the same memory, in the first pass, too.
TEST(workspace, memory_of_a_scope_is_used_again) {
  counted_device counted;
  nn::workspace<any_device> space(counted.device);
  const std::size_t mebi = std::size_t{1} << 20, kept = 2 * mebi, layer = 3 * mebi;
  const auto floats = [](std::size_t bytes) { return static_cast<extent_t>(bytes / sizeof(float)); };
  for (int pass = 0; pass < 3; ++pass) {
    space.reset();
    const std::byte* const first = space.take<std::byte>(static_cast<extent_t>(kept));
    std::vector<const float*> places;
    for (int l = 0; l < 20; ++l) {
      const nn::workspace<any_device>::scope scope(space);
      places.push_back(space.take<float>(floats(layer / 3)));
      const nn::workspace<any_device>::scope inner(space);
      space.take<float>(floats(2 * layer / 3));
      EXPECT_NE(static_cast<const void*>(places.back()), static_cast<const void*>(first));
    }
    EXPECT_EQ(places, std::vector<const float*>(20, places.front()));
    EXPECT_LE(space.bytes(), 2 * (kept + layer)) << pass;
  }
  EXPECT_LE(space.bytes(), kept + layer + 3 * 4096);
  EXPECT_LE(counted.memory.most, 2 * (kept + layer));
  const std::size_t before = counted.memory.live;
  counted.memory.most = before;
  for (int l = 0; l < 20; ++l) {  // rows that a rank receives: more from layer to layer
    const nn::workspace<any_device>::scope scope(space);
    for (int i = 0; i < 3; ++i) space.take<float>(floats(layer + static_cast<std::size_t>(l) * mebi));
  }
  EXPECT_LE(counted.memory.most, before + 3 * (layer + 20 * mebi));
}

template <class Device>
std::vector<float> train_and_generate(Device& device) {
  nn::causal_lm<Device> model(device, tiny());
  model.initialize(5);
  nn::workspace<Device> space(device, 700);  // one row of logits at a time
  nn::gradients<Device> grads(model);
  const example e(9);
  std::vector<float> result(grads.size());
  nn::forward_backward(model, space, grads, e.sequences, e.targets, 0.5f, true,
                       [&](auto logp, auto entropy, auto dlogp, auto) {
                         std::copy(logp.begin(), logp.end(), dlogp.begin());
                         result.insert(result.end(), entropy.begin(), entropy.end());
                       });
  device.download(result.data(), grads.data(), grads.size() * sizeof(float));
  nn::kv_cache<Device> cache(device, model.settings(), 1);
  const std::vector<std::int32_t> pages = {0}, tokens = {1, 2};
  const std::span<const std::int32_t> ids = e.sequences.values;
  const nn::decode_chunk chunks[] = {{ids.first(3), 0, pages, true}, {ids.subspan(3, 5), 3, pages, true}};
  std::vector<float> logits(200), logp(2), entropy(2);
  nn::decode(model, space, cache, chunks, logits.data());
  nn::log_prob_of(device, logits, tokens, 0.5f, logp, entropy);
  for (const auto* values : {&logits, &logp, &entropy}) result.insert(result.end(), values->begin(), values->end());
  return result;
}

TEST(causal_lm, a_device_that_the_host_cannot_read) {
  cpu here(1);
  any_device_of<cpu> anywhere(1);  // everything has to come back through download()
  EXPECT_EQ(train_and_generate(here), train_and_generate<any_device>(anywhere));
}

/// AdamW on the summed log-prob of one sequence: the model learns it by heart.
TEST(causal_lm, learns_a_sequence) {
  cpu device(2);
  nn::causal_lm<cpu> model(device, tiny());
  model.initialize(3);
  nn::workspace<cpu> space(device);
  nn::gradients<cpu> grads(model);
  optim::adamw<cpu> optimizer(device, model.size());
  const example e(40);
  double mean = 0;
  for (int k = 0; k < 120; ++k) {
    grads.zero();
    nn::forward_backward(model, space, grads, e.sequences, e.targets, 1, false, [&](auto logp, auto, auto dlogp, auto) {
      mean = std::accumulate(logp.begin(), logp.end(), 0.0) / static_cast<double>(logp.size());
      for (float& d : dlogp) d = -1 / static_cast<float>(logp.size());
    });
    optimizer.step(model.weights(), grads, 1e-2, optim::clip_scale(optim::global_norm(device, grads), 1));
  }
  EXPECT_GT(mean, -0.1);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
