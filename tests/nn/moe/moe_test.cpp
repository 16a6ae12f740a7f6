// A mixture of experts: the choice of experts, names and sizes, and the same bits in any batch, split, recomputation,
// prefill and decode.
#include "rlcore/nn/moe/moe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/head/head.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using floats = std::vector<float>;

nn::routing routed(std::vector<float> logits, extent_t experts, extent_t chosen, bool renormalise,
                   const nn::expert_choices& choices = {}) {
  nn::routing r;
  r.renormalise = renormalise;
  r.resize(std::ssize(logits) / experts, experts, chosen);
  r.probability = std::move(logits);
  r.route(choices);
  return r;
}

TEST(routing, most_likely_first_and_the_lower_id_of_equals) {
  const nn::routing r = routed({1, 3, 3, 0,  //
                                2, 2, 2, 2,  //
                                0, 1, 2, 3},
                               4, 2, true);
  EXPECT_EQ(r.expert, (std::vector<std::int32_t>{1, 2, 0, 1, 3, 2}));
  EXPECT_EQ(r.begin, (std::vector<extent_t>{0, 1, 3, 5, 6}));
  EXPECT_EQ(r.row, (std::vector<std::int32_t>{1, 0, 1, 0, 2, 2}));  // by expert, then row
  EXPECT_EQ(r.weight[0], 0.5f);
  EXPECT_EQ(r.weight[2], 0.5f);
  EXPECT_FLOAT_EQ(r.weight[4], 1 / (1 + std::exp(-1.0f)));
  const nn::routing plain = routed({2, 2, 2, 2}, 4, 2, false);
  EXPECT_EQ(plain.weight, (floats{0.25f, 0.25f}));
  const auto [first, end] = r.slots_of(2, 1, 2);  // expert 2 of rows 1 and 2
  EXPECT_EQ(first, 4);
  EXPECT_EQ(end, 5);
}

/// The choices of layer 1 of two with experts; one row has none.
TEST(routing, replayed_choices_in_any_order) {
  const floats logits = {1, 3, 3, 0, 2, 2, 2, 2, 0, 1, 2, 3};
  const nn::routing own = routed(logits, 4, 2, true);
  const std::vector<std::int16_t> ids = {9, 9, 2, 1, 9, 9, -1, -1, 9, 9, 2, 3};
  std::vector<std::int16_t> written(12, 7);
  const nn::routing same = routed(logits, 4, 2, true, {ids.data(), 4, 1, written.data()});
  EXPECT_EQ(same.expert, own.expert);
  EXPECT_EQ(same.weight, own.weight);
  EXPECT_EQ(written, (std::vector<std::int16_t>{7, 7, 1, 2, 7, 7, 0, 1, 7, 7, 3, 2}));
  const std::vector<std::int16_t> others = {0, 3, 3, 2, 1, 0};
  const nn::routing given = routed(logits, 4, 2, true, {others.data(), 2});
  EXPECT_EQ(given.expert, (std::vector<std::int32_t>{0, 3, 2, 3, 1, 0}));
  EXPECT_FLOAT_EQ(given.weight[0], 1 / (1 + std::exp(-1.0f)));
  EXPECT_EQ(given.begin, (std::vector<extent_t>{0, 2, 3, 4, 6}));
}

TEST(routing, gradient_against_differences) {
  const floats logits = {0.3f, -0.2f, 0.9f, 0.1f, -0.5f}, dweight = {0.7f, -1.3f, 0.4f},
               balance = {0.2f, -0.1f, 0.3f, 0.5f, -0.4f};
  const std::vector<std::int16_t> given = {4, 1, 3};
  for (const int n : {0, 1, 2, 3}) {
    const bool renormalise = n % 2 == 1;
    const nn::expert_choices choices{n < 2 ? nullptr : given.data(), 3};
    const auto value = [&](const floats& at) {
      const nn::routing r = routed(at, 5, 3, renormalise, choices);
      double sum = 0;
      for (std::size_t j = 0; j < 3; ++j) sum += double{r.weight[j]} * double{dweight[j]};
      for (std::size_t e = 0; e < 5; ++e) sum += double{r.probability[e]} * double{balance[e]};
      return sum;
    };
    floats slope(5);
    routed(logits, 5, 3, renormalise, choices).backward(slope, dweight, balance, 0, 1);
    for (std::size_t e = 0; e < 5; ++e) {
      floats up = logits, down = logits;
      up[e] += 0x1p-7f, down[e] -= 0x1p-7f;
      EXPECT_NEAR(double{slope[e]}, (value(up) - value(down)) / 0x1p-6, 2e-5) << e << n;
    }
  }
}

/// Expected by hand: 2 experts, both layers' rows together.
TEST(load_balancing, value_slopes_and_sums_in_any_order) {
  nn::router_counts a, b;
  a.reset(2), b.reset(2);
  a.add(routed({std::log(3.0f), 0, 0, std::log(7.0f)}, 2, 1, false));  // p = (3/4, 1/4), (1/8, 7/8)
  b.add(routed({std::log(3.0f), 0}, 2, 1, false));
  nn::router_counts sum = a, other = b;
  sum += b, other += a;
  EXPECT_EQ(sum.values, other.values);
  EXPECT_EQ(sum.rows(), 3);
  EXPECT_EQ(sum.chosen(0), 2);
  EXPECT_NEAR(sum.probability(0), 0.75 + 0.125 + 0.75, 1e-7);
  const double p0 = 1.625 / 3, p1 = 1.375 / 3;
  EXPECT_NEAR(nn::load_balancing_loss(sum), 2 * (2.0 / 3 * p0 + 1.0 / 3 * p1), 1e-7);
  const floats slopes = nn::load_balancing_slopes(sum, 0.5);
  EXPECT_FLOAT_EQ(slopes[0], 0.5f * 2 * (2.0f / 3) / 3);
  EXPECT_FLOAT_EQ(slopes[1], 0.5f * 2 * (1.0f / 3) / 3);
  EXPECT_EQ(nn::load_balancing_loss(nn::router_counts{}), 0);
}

nn::config tiny() {
  nn::config c;
  c.model = nn::family::qwen3_moe;
  c.vocab_size = 75;
  c.hidden_size = 48;
  c.intermediate_size = 70;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  c.head_dim = 20;
  c.tie_word_embeddings = false;
  c.attention_bias = false;
  c.initializer_range = 0.2;
  c.num_experts = 7;
  c.num_experts_per_tok = 3;
  c.moe_intermediate_size = 20;
  c.norm_topk_prob = true;
  c.mlp_only_layers = {1};
  return c;
}

/// A device without memory, to lay out a large model.
class layout_only : public cpu {
 public:
  using cpu::cpu;
  void* allocate(std::size_t) { return nullptr; }
  void release(void*) noexcept {}
};

TEST(moe, size_of_qwen3_30b_a3b) {
  nn::config c = tiny();
  c.vocab_size = 151936, c.hidden_size = 2048, c.intermediate_size = 6144, c.num_hidden_layers = 48;
  c.num_attention_heads = 32, c.num_key_value_heads = 4, c.head_dim = 128;
  c.num_experts = 128, c.num_experts_per_tok = 8, c.moe_intermediate_size = 768, c.mlp_only_layers = {};
  any_device_of<layout_only> device(1);
  const nn::causal_lm<any_device> model(device, c);
  EXPECT_EQ(model.size(), 30532122624u);         // the published checkpoint's 30.5 B
  EXPECT_EQ(model.parameters().size(), 18867u);  // and its number of tensors
}

TEST(moe, names_and_refusals) {
  nn::config c = tiny();
  c.num_experts = 2, c.num_experts_per_tok = 1, c.decoder_sparse_step = 2, c.num_hidden_layers = 2;
  c.mlp_only_layers = {};
  cpu device(1);
  const nn::causal_lm<cpu> model(device, c);
  std::string text;
  for (const auto& p : model.parameters())
    if (p.name.find(".mlp.") != std::string::npos)
      text += p.name + " " + std::to_string(p.shape[0]) + " " + std::to_string(p.shape[1]) + "\n";
  const std::string first = "model.layers.0.mlp.", second = "model.layers.1.mlp.";
  EXPECT_EQ(text, first + "gate_proj.weight 70 48\n" + first + "up_proj.weight 70 48\n" + first +
                      "down_proj.weight 48 70\n" + second + "gate.weight 2 48\n" + second +
                      "experts.0.gate_proj.weight 20 48\n" + second + "experts.0.up_proj.weight 20 48\n" + second +
                      "experts.0.down_proj.weight 48 20\n" + second + "experts.1.gate_proj.weight 20 48\n" + second +
                      "experts.1.up_proj.weight 20 48\n" + second + "experts.1.down_proj.weight 48 20\n");
  c.num_experts_per_tok = 3;
  EXPECT_THROW((nn::causal_lm<cpu>(device, c)), config_error);
  c.num_experts = 0;
  EXPECT_THROW((nn::causal_lm<cpu>(device, c)), config_error);
}

/// Sequences by number; every row but the last of each is a target. Odd sequences have no gradient if `some`.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  floats weight;

  explicit batch(const std::vector<int>& numbers, bool some = false) {
    for (const int number : numbers) {
      static constexpr int lengths[] = {5, 23, 1, 40, 17, 2, 31};
      const int length = lengths[number % 7], start = static_cast<int>(sequences.values.size());
      std::vector<std::int32_t> ids;
      for (int t = 0; t < length; ++t) ids.push_back((t * t + 13 * number + 3 * t) % 75);
      sequences.push_back(ids);
      for (int t = 1; t < length; ++t) {
        targets.row.push_back(start + t - 1);
        targets.token.push_back(ids[static_cast<std::size_t>(t)]);
        weight.push_back(some && number % 2 == 1 ? 0 : static_cast<float>((number + t) % 5 - 2) * 0.3f);
      }
    }
  }
};

struct rig {
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
  nn::gradients<cpu> gradients;

  explicit rig(const nn::config& c = tiny(), int threads = 1, compute type = compute::float32)
      : device(threads, {}, type), model(device, c), space(device), gradients(model) {
    model.initialize(11);
  }

  /// The experts of these sequences by weights of another seed, for two of three tokens.
  std::vector<std::int16_t> other_experts(const ragged<std::int32_t>& sequences) {
    nn::causal_lm<cpu> other(device, model.settings());
    other.initialize(12);
    std::vector<std::int16_t> ids = nn::chosen_experts(other, space, sequences);
    const std::size_t per_token = ids.size() / sequences.values.size();
    for (std::size_t t = 0, n = 0; t + 1 < sequences.offsets.size(); ++t)
      for (std::size_t i = 0; i < sequences.length(t); ++i, ++n)
        if (i % 3 == 2) std::fill_n(ids.begin() + static_cast<std::ptrdiff_t>(n * per_token), per_token, -1);
    return ids;
  }

  /// Log-probs and, after them, the gradient; `replayed` are the experts that sequences have.
  floats train(const std::vector<std::vector<int>>& micro_batches, bool recompute = false, bool some = false,
               const std::function<std::vector<std::int16_t>(const ragged<std::int32_t>&)>& replayed = {}) {
    gradients.zero();
    floats out;
    for (const auto& numbers : micro_batches) {
      const batch b(numbers, some);
      const std::vector<std::int16_t> experts = replayed ? replayed(b.sequences) : std::vector<std::int16_t>();
      nn::input in = b.sequences;
      in.routed_experts = experts;
      nn::forward_backward(model, space, gradients, in, b.targets, 0.8f, recompute,
                           [&](auto logp, auto, auto dlogp, auto dentropy) {
                             out.insert(out.end(), logp.begin(), logp.end());
                             for (std::size_t i = 0; i < dlogp.size(); ++i)
                               dlogp[i] = b.weight[i], dentropy[i] = b.weight[i] != 0 ? 0.01f : 0.0f;
                           });
    }
    out.insert(out.end(), gradients.data(), gradients.data() + gradients.size());
    return out;
  }
};

class moe_bits : public testing::TestWithParam<compute> {};

TEST_P(moe_bits, splits_recomputation_threads_and_load_balancing) {
  rig r(tiny(), 1, GetParam()), threaded(tiny(), 3, GetParam());
  for (const bool balanced : {false, true}) {
    if (balanced) {  // counted before: any split has the same slopes
      nn::router_counts counts;
      for (int n = 0; n < 7; ++n) {
        nn::count_routes(r.model, r.space, batch({n}).sequences, counts);
      }
      r.gradients.balance(nn::load_balancing_slopes(counts, 0.5));
      threaded.gradients.balance(r.gradients.balance());
    }
    const floats whole = r.train({{0, 1, 2, 3, 4, 5, 6}});
    EXPECT_GT(std::accumulate(whole.begin(), whole.end(), 0.0, [](double a, float b) { return a + double{b * b}; }), 1);
    EXPECT_TRUE(whole == r.train({{0, 1, 2, 3, 4, 5, 6}}, true)) << "recomputed";
    EXPECT_TRUE(whole == r.train({{0, 1}, {2}, {3, 4, 5, 6}})) << "three micro-batches";
    EXPECT_TRUE(whole == r.train({{0}, {1}, {2}, {3}, {4}, {5}, {6}}, true)) << "single sequences";
    EXPECT_TRUE(whole == threaded.train({{0, 1, 2, 3, 4, 5, 6}})) << "three threads";
    const floats some = r.train({{0, 1, 2, 3, 4, 5, 6}}, false, true);
    EXPECT_TRUE(some == r.train({{0, 1, 2, 3, 4, 5, 6}}, true, true)) << "sequences without gradient, recomputed";
    EXPECT_TRUE(some == r.train({{0, 1}, {2, 3, 4}, {5, 6}}, false, true)) << "sequences without gradient";
  }
}

TEST_P(moe_bits, replayed_experts_in_any_split) {
  rig r(tiny(), 1, GetParam());
  const auto own = [&](const ragged<std::int32_t>& s) { return nn::chosen_experts(r.model, r.space, s); };
  const auto other = [&](const ragged<std::int32_t>& s) { return r.other_experts(s); };
  const floats plain = r.train({{0, 1, 2, 3, 4, 5, 6}});
  EXPECT_TRUE(plain == r.train({{0, 1, 2}, {3, 4, 5, 6}}, false, false, own));
  const floats whole = r.train({{0, 1, 2, 3, 4, 5, 6}}, false, false, other);
  EXPECT_FALSE(plain == whole);
  EXPECT_TRUE(whole == r.train({{0, 1}, {2}, {3, 4, 5, 6}}, false, false, other)) << "three micro-batches";
  EXPECT_TRUE(whole == r.train({{0}, {1}, {2}, {3}, {4}, {5}, {6}}, true, false, other)) << "recomputed";
  const floats some = r.train({{0, 1, 2, 3, 4, 5, 6}}, false, true, other);
  EXPECT_TRUE(some == r.train({{0, 1, 2, 3, 4, 5, 6}}, true, true, other)) << "sequences without gradient, recomputed";
  EXPECT_TRUE(some == r.train({{0, 1}, {2, 3, 4}, {5, 6}}, false, true, other)) << "sequences without gradient";
  const batch b({0, 3, 1, 6});
  const std::vector<std::int16_t> experts = other(b.sequences);
  nn::input in = b.sequences;
  in.routed_experts = experts;
  floats scored(b.targets.row.size()), trained = r.train({{0, 3, 1, 6}}, false, false, other);
  nn::log_probs(r.model, r.space, in, b.targets, 0.8f, scored, {});
  trained.resize(scored.size());
  EXPECT_EQ(scored, trained);
}

TEST(moe, replayed_experts_that_do_not_fit) {
  rig r;
  const batch b({2, 5});  // 3 tokens, 2 layers with experts, 3 of 7 experts each
  const auto refused = [&](std::vector<std::int16_t> ids, const std::string& part) {
    nn::input in = b.sequences;
    in.routed_experts = ids;
    try {
      nn::count_routes(r.model, r.space, in, r.space.routed);
      ADD_FAILURE() << part;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  std::vector<std::int16_t> ids = nn::chosen_experts(r.model, r.space, b.sequences);
  ASSERT_EQ(ids.size(), 18u);
  refused({1, 2, 3}, "3 routed experts, expected 18: tokens x layers with experts x 3");
  ids[12] = ids[13];
  refused(ids, "the routed experts of token 2 are not 3 different ones of 7");
  ids[12] = 7;
  refused(ids, "of token 2");
  ids[12] = -2;
  refused(ids, "of token 2");
}

TEST_P(moe_bits, rollout_equals_training) {
  rig r(tiny(), 2, GetParam());
  const batch b({0, 3, 1, 6});
  floats training(b.targets.row.size());
  nn::log_probs(r.model, r.space, b.sequences, b.targets, 0.8f, training, {});
  for (const std::size_t step : {std::size_t{100}, std::size_t{7}, std::size_t{1}}) {
    nn::kv_cache<cpu> cache(r.device, r.model.settings(), 16);
    std::vector<std::int32_t> pages(16);
    std::iota(pages.rbegin(), pages.rend(), 0);
    floats sampled(training.size(), 0.0f);
    for (std::size_t begin = 0; begin < 40; begin += step) {
      std::vector<nn::decode_chunk> chunks;
      std::vector<std::size_t> which;
      for (std::size_t s = 0; s < 4; ++s)
        for (std::size_t t = begin; t < std::min(begin + step, b.sequences.length(s)); ++t) {
          const auto row = static_cast<std::int32_t>(b.sequences.begin(s) + t);
          const auto at = std::find(b.targets.row.begin(), b.targets.row.end(), row);
          const bool wanted = at != b.targets.row.end();
          if (wanted) which.push_back(static_cast<std::size_t>(at - b.targets.row.begin()));
          chunks.push_back({b.sequences.row(s).subspan(t, 1), static_cast<std::int64_t>(t),
                            std::span(pages).subspan(4 * s, 4), wanted});
        }
      floats logits(which.size() * 75), logp(which.size()), entropy(which.size());
      std::vector<std::int32_t> tokens;
      for (const std::size_t i : which) tokens.push_back(b.targets.token[i]);
      nn::decode(r.model, r.space, cache, chunks, logits.data());
      nn::log_prob_of(r.device, logits, tokens, 0.8f, logp, entropy);
      for (std::size_t i = 0; i < which.size(); ++i) sampled[which[i]] = logp[i];
    }
    EXPECT_EQ(training, sampled) << step;
  }
}
INSTANTIATE_TEST_SUITE_P(types, moe_bits, testing::Values(compute::float32, compute::bfloat16),
                         [](const auto& each) { return each.param == compute::float32 ? "float32" : "bfloat16"; });

/// A loss that no row has, but the load-balancing one: the head's gradient is 0, the routers' is not.
TEST(moe, load_balancing_alone) {
  rig r;
  r.gradients.data()[0] = 1;
  const batch b({0, 1});
  r.gradients.zero();
  const auto none = [](auto, auto, auto, auto) {};
  nn::forward_backward(r.model, r.space, r.gradients, b.sequences, b.targets, 1, false, none);
  const float* g = r.gradients.data();
  EXPECT_TRUE(std::all_of(g, g + r.gradients.size(), [](float x) { return x == 0; }));
  r.gradients.balance(nn::load_balancing_slopes(r.space.routed, 1));
  r.gradients.zero();
  nn::forward_backward(r.model, r.space, r.gradients, b.sequences, b.targets, 1, false, none);
  g = r.gradients.data();
  for (const auto& p : r.model.parameters()) {
    double norm = 0;
    for (std::size_t i = 0; i < p.size; ++i) norm += std::abs(double{g[p.offset + i]});
    const bool above = p.name == "lm_head.weight" || p.name == "model.norm.weight",
               below = p.name == "model.embed_tokens.weight";
    if (above || p.name.find("layers.2.mlp.experts") != std::string::npos) {
      EXPECT_EQ(norm, 0) << p.name;
    }
    if (below || p.name.find("mlp.gate.weight") != std::string::npos) {
      EXPECT_GT(norm, 0) << p.name;
    }
  }
}

/// Adapters of all projections, those of the experts too; the router stays as it is.
TEST(moe, adapters_have_the_gradient_of_their_product) {
  rig r;
  nn::lora<cpu> adapter(r.model, {.rank = 4, .alpha = 8});
  adapter.attach(r.model);
  nn::lora_gradients<cpu> grads(r.model, adapter);
  const batch b({0, 1, 3});
  const auto loss = [&](auto logp, auto, auto dlogp, auto) {
    for (std::size_t i = 0; i < logp.size(); ++i) dlogp[i] = b.weight[i];
  };
  nn::forward_backward(r.model, r.space, grads, b.sequences, b.targets, 1, false, loss);
  nn::forward_backward(r.model, r.space, r.gradients, b.sequences, b.targets, 1, false, loss);
  std::size_t experts = 0;
  for (const auto& p : adapter.parameters()) {
    EXPECT_EQ(p.name.find("mlp.gate.lora"), std::string::npos);
    if (p.name.find("experts.3.down_proj.lora_B") == std::string::npos) continue;
    ++experts;  // dB = s dW A^T, A the parameter before it
    const nn::parameter& a = *(&p - 1);
    for (const auto& w : r.model.parameters()) {
      if (w.name != p.name.substr(0, p.name.size() - 14) + ".weight") continue;
      const float *dw = r.gradients.data() + w.offset, *values = adapter.values().data() + a.offset;
      for (std::int64_t o = 0; o < w.shape[0]; ++o)
        for (std::int64_t k = 0; k < 4; ++k) {
          double sum = 0;
          for (std::int64_t i = 0; i < w.shape[1]; ++i)
            sum += double{dw[o * w.shape[1] + i]} * double{values[k * w.shape[1] + i]};
          EXPECT_NEAR(double{grads.data()[p.offset + static_cast<std::size_t>(o * 4 + k)]}, 2 * sum, 1e-3) << p.name;
        }
    }
  }
  EXPECT_EQ(experts, 2u);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
