// Whole models on the npu device against the cpu: scoring, training, generation.
#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>
#include <utility>

#include "device/npu/counted_calls.hpp"
#include "device/npu/emulated_npu.hpp"
#include "rlcore/device/losses.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_gradients.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/objective/algorithm/grpo.hpp"
#include "rlcore/rollout/engine.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

nn::config tiny(nn::family family) {
  nn::config c;
  c.model = family;
  c.vocab_size = 3100, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 128;
  c.initializer_range = 0.2;
  if (family == nn::family::qwen3) c.tie_word_embeddings = false, c.attention_bias = false, c.head_dim = 16;
  return c;
}

/// Three sequences, the middle one without a target.
struct batch {
  ragged<std::int32_t> sequences;
  nn::targets targets;

  explicit batch(std::int64_t vocabulary) {
    std::int32_t row = 0;
    for (const std::uint32_t n : {9u, 4u, 23u}) {
      std::vector<std::int32_t> ids;
      for (std::uint32_t t = 0; t < n; ++t)
        ids.push_back(static_cast<std::int32_t>(random_key{5}.below(static_cast<std::uint32_t>(vocabulary), n, t)));
      sequences.push_back(ids);
      for (std::uint32_t t = 2; n != 4 && t + 1 < n; ++t) {
        targets.row.push_back(row + static_cast<std::int32_t>(t));
        targets.token.push_back(ids[t + 1]);
      }
      row += static_cast<std::int32_t>(n);
    }
  }
};

template <class D>
struct machine {
  D& device;
  nn::causal_lm<D> model;
  nn::workspace<D> space;
  batch data;

  machine(D& d, const nn::config& c, std::size_t logits_bytes = 0)
      : device(d), model(d, c), space(d, logits_bytes), data(c.vocab_size) {
    model.initialize(11);
  }
  std::array<floats, 2> score() {
    std::array<floats, 2> out;
    for (floats& values : out) values.resize(data.targets.row.size());
    nn::log_probs(model, space, data.sequences, data.targets, 0.8f, out[0], out[1]);
    return out;
  }
  template <class Gradients>
  floats train(Gradients& gradients, bool recompute) {
    nn::forward_backward(model, space, gradients, data.sequences, data.targets, 0.8f, recompute,
                         [](auto logp, auto, auto dlogp, auto dentropy) {
                           for (std::size_t i = 0; i < logp.size(); ++i) {
                             if (i % 5 == 3) continue;
                             dlogp[i] = static_cast<float>(random_key{1}.normal(static_cast<std::uint32_t>(i)));
                             dentropy[i] =
                                 static_cast<float>(0.1 * random_key{2}.normal(static_cast<std::uint32_t>(i)));
                           }
                         });
    floats host(gradients.size());
    device.download(host.data(), gradients.data(), host.size() * sizeof(float));
    return host;
  }
  floats train(bool recompute = false) {
    nn::gradients<D> gradients(model);
    return train(gradients, recompute);
  }
  std::vector<rollout::response> generate(float temperature, std::int64_t most = 30) {
    std::vector<rollout::request> requests;
    for (std::uint32_t i = 0; i < 6; ++i) {
      const std::size_t which = i / 3 * 2;  // the first and the last sequence, three times each
      requests.push_back({std::as_const(data.sequences).row(which), i / 3, i % 3});
    }
    rollout::generation how;
    how.sampling.temperature = temperature, how.max_new_tokens = most, how.max_sequences = 4,
    how.max_batched_tokens = 20;
    return rollout::generate(model, space, requests, how, random_key{9}, [](std::size_t) {});
  }
};

/// |a - b| / |b|.
double distance(const floats& a, const floats& b) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
    difference += (x - y) * (x - y), size += y * y;
  }
  return std::sqrt(difference / size);
}
double furthest(const floats& a, const floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

constexpr nn::family families[] = {nn::family::qwen2, nn::family::qwen3};

/// Every kernel in float: what differs is the order of sums.
TEST(npu_model, in_float_scores_and_gradients_are_those_of_the_cpu) {
  for (const nn::family family : families) {
    emulated_npu on(npu_settings{0, compute::float32});
    cpu host(1);
    machine<npu> m(*on, tiny(family));
    machine<cpu> c(host, tiny(family));
    const auto got = m.score(), wanted = c.score();
    EXPECT_LE(furthest(got[0], wanted[0]), 3e-5);
    EXPECT_LE(furthest(got[1], wanted[1]), 3e-5);
    const floats gradients = c.train();
    EXPECT_LE(distance(m.train(), gradients), 1e-5);
    EXPECT_LE(distance(m.train(true), gradients), 1e-5);
  }
}

/// Matrices in the memory of products alone: the embedding has floats, since this device reads no packed rows.
TEST(npu_model, a_model_that_is_packed_alone_has_the_bits_of_one_with_floats) {
  for (const nn::family family : families)
    for (const compute type : {compute::float32, compute::bfloat16}) {
      emulated_npu on(npu_settings{0, type});
      machine<npu> m(*on, tiny(family));
      floats weights(m.model.size());
      m.model.weights().download(weights);
      nn::causal_lm<npu> alone(*on, tiny(family), {}, nn::weights_in::packed);
      alone.fill(on->compute_format(), nn::bf16_weights::all, [&](std::size_t first, std::span<float> to) {
        std::copy_n(&weights.at(first), to.size(), to.data());
      });
      floats logp(m.data.targets.row.size()), entropy = logp;
      nn::log_probs(alone, m.space, m.data.sequences, m.data.targets, 0.8f, logp, entropy);
      EXPECT_EQ(m.score(), (std::array{logp, entropy}));
    }
}

TEST(npu_model, in_float_the_padding_token_of_an_embedding_has_no_gradient) {
  for (const nn::family family : families) {
    nn::config settings = tiny(family);
    settings.pad_token_id = batch(settings.vocab_size).sequences.values[3];
    emulated_npu on(npu_settings{0, compute::float32});
    cpu host(1);
    machine<npu> m(*on, settings);
    machine<cpu> c(host, settings), without(host, tiny(family));
    const floats gradients = c.train();
    EXPECT_LE(distance(m.train(), gradients), 1e-5);
    EXPECT_GE(distance(without.train(), gradients), 1e-3);
  }
}

TEST(npu_model, in_float_a_llama_with_yarn_is_that_of_the_cpu) {
  nn::config settings = tiny(nn::llama{});
  settings.tie_word_embeddings = settings.attention_bias = false;
  const nn::config unscaled = settings;
  settings.rope_scaling = {.type = nn::rope_type::yarn, .factor = 4, .original_max_position_embeddings = 16};
  emulated_npu on(npu_settings{0, compute::float32});
  cpu host(1);
  machine<npu> m(*on, settings);
  machine<cpu> c(host, settings), plain(host, unscaled);
  const auto got = m.score(), wanted = c.score();
  EXPECT_LE(furthest(got[0], wanted[0]), 3e-5);
  EXPECT_LE(furthest(got[1], wanted[1]), 3e-5);
  EXPECT_LE(distance(m.train(), c.train()), 1e-5);
  EXPECT_EQ(m.generate(0)[0].tokens, c.generate(0)[0].tokens);
  EXPECT_GE(furthest(plain.score()[0], wanted[0]), 1e-3);
}

/// The same when neither logits nor their rows fit, so that tiles of columns are combined, and without any optional
/// operator.
TEST(npu_model, in_float_with_little_memory_and_without_optional_operators) {
  for (const nn::family family : families) {
    emulated_npu on(npu_settings{0, compute::float32}, [](ascend::operator_calls& op) {
      op.aclnnAddRmsNorm = {}, op.aclnnSwiGlu = {}, op.aclnnSwiGluGrad = {}, op.aclnnRotaryPositionEmbedding = {};
      op.aclnnFlashAttentionVarLenScore = {}, op.aclnnFlashAttentionUnpaddingScoreGrad = {};
      op.aclnnGroupedMatmulAdd = {}, op.aclnnApplyAdamWV2 = {}, op.aclnnLogSoftmax = {};
    });
    cpu host(1);
    machine<npu> m(*on, tiny(family), 16384);
    machine<cpu> c(host, tiny(family));
    EXPECT_LE(furthest(m.score()[0], c.score()[0]), 3e-5);
    EXPECT_LE(distance(m.train(), c.train()), 1e-5);
  }
}

/// Inputs of products rounded to bf16 on both; before CANN 8.5 their results as well, from then on only attention's.
TEST(npu_model, in_bf16_scores_and_gradients_are_near_the_cpu_in_bf16) {
  for (const nn::family family : families)
    for (const int version : {80300, 80500}) {
      emulated_npu on(npu_settings{0, compute::bfloat16}, {}, version);
      cpu host(1, {}, compute::bfloat16), exact(1);
      machine<npu> m(*on, tiny(family));
      machine<cpu> c(host, tiny(family)), e(exact, tiny(family));
      const auto got = m.score(), wanted = c.score(), truth = e.score();
      const floats gradients = m.train(), wanted_gradients = c.train(), true_gradients = e.train();
      const double own = distance(wanted_gradients, true_gradients);
      std::printf(
          "[ bf16     ] %s, CANN %d: log-probs differ from the cpu's in bf16 by %.2g, those from float by %.2g; "
          "gradients by %.2g and %.2g\n",
          family == nn::family::qwen2 ? "qwen2" : "qwen3", version, furthest(got[0], wanted[0]),
          furthest(wanted[0], truth[0]), distance(gradients, wanted_gradients), own);
      EXPECT_LE(furthest(got[0], wanted[0]), 0.15);
      EXPECT_LE(distance(gradients, wanted_gradients), 0.05);
    }
}

TEST(npu_model, adapters) {
  emulated_npu on(npu_settings{0, compute::float32});
  cpu host(1);
  const auto gradients = [](auto& m) {
    using D = std::remove_reference_t<decltype(m.device)>;
    nn::lora<D> adapter(m.model, {.rank = 4, .alpha = 8});
    adapter.attach(m.model);
    floats values(adapter.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(0.1 * random_key{3}.normal(static_cast<std::uint32_t>(i)));
    adapter.values().upload(values);
    adapter.merge(m.model);
    nn::lora_gradients<D> g(m.model, adapter);
    return m.train(g, false);
  };
  machine<npu> m(*on, tiny(nn::family::qwen2));
  machine<cpu> c(host, tiny(nn::family::qwen2));
  EXPECT_LE(distance(gradients(m), gradients(c)), 1e-5);
}

TEST(npu_model, equal_runs_have_equal_bits) {
  for (const compute type : {compute::bfloat16, compute::float32}) {
    emulated_npu on(npu_settings{0, type});
    machine<npu> m(*on, tiny(nn::family::qwen3));
    const auto first = m.score();
    const floats gradients = m.train();
    EXPECT_EQ(m.score(), first);
    EXPECT_EQ(m.train(), gradients);
    const auto a = m.generate(0.9f, 12), b = m.generate(0.9f, 12);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].tokens, b[i].tokens);
      EXPECT_EQ(a[i].logp, b[i].logp);
    }
  }
}

TEST(npu_model, greedy_text_is_that_of_the_cpu_in_float) {
  for (const nn::family family : families) {
    emulated_npu on(npu_settings{0, compute::float32});
    cpu host(1);
    machine<npu> m(*on, tiny(family));
    machine<cpu> c(host, tiny(family));
    const auto got = m.generate(0), wanted = c.generate(0);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(got[i].tokens, wanted[i].tokens) << i;
      EXPECT_LE(furthest(got[i].logp, wanted[i].logp), 3e-5);
    }
  }
}

/// In the feed-forward layers more inputs than the matrix unit sums in one go when there are few rows.
nn::config deep_sums(nn::family family) {
  nn::config c = tiny(family);
  c.vocab_size = 1100, c.intermediate_size = 6400, c.initializer_range = 0.1;
  return c;
}

/// What a rollout records against what training computes for the same tokens: on this device both differ by roundings,
/// since operators choose their order of sums by the shape of the call.
TEST(npu_model, rollout_and_training_log_probs) {
  for (const nn::family family : families)
    for (const auto& [type, version, bound] : {std::tuple{compute::float32, 80300, 2e-5},
                                               {compute::hf32, 80300, 0.02},
                                               {compute::bfloat16, 80300, 0.02},
                                               {compute::bfloat16, 80500, 0.02}}) {
      emulated_npu on(npu_settings{0, type}, {}, version);
      machine<npu> m(*on, deep_sums(family), 16384);  // log-probs from tiles of columns
      ragged<std::int32_t> sequences;
      nn::targets targets;
      floats recorded;
      const auto answers = m.generate(0.8f, 12);
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const std::size_t which = i / 3 * 2;
        const auto prompt = m.data.sequences.row(which);
        std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
        for (const std::int32_t token : answers[i].tokens) {
          targets.row.push_back(static_cast<std::int32_t>(sequences.values.size() + ids.size()) - 1);
          targets.token.push_back(token);
          ids.push_back(token);
        }
        sequences.push_back(ids);
        recorded.insert(recorded.end(), answers[i].logp.begin(), answers[i].logp.end());
      }
      floats again(recorded.size()), none;
      nn::log_probs(m.model, m.space, sequences, targets, 0.8f, again, none);
      double sum = 0;
      for (std::size_t i = 0; i < again.size(); ++i)
        sum += std::abs(static_cast<double>(again[i]) - static_cast<double>(recorded[i]));
      constexpr const char* types[] = {"float32", "bfloat16", "hf32"};
      std::printf("[ rollout  ] %s %s CANN %d: |logp difference| at most %.2g, mean %.2g, of %zu tokens\n",
                  family == nn::family::qwen2 ? "qwen2" : "qwen3", types[static_cast<int>(type)], version,
                  furthest(again, recorded), sum / static_cast<double>(again.size()), again.size());
      EXPECT_LE(furthest(again, recorded), bound);
    }
}

/// The gradient of GRPO with its loss on the host, or where the log-probs are.
template <class D>
floats grpo_gradient(machine<D>& m, bool stays) {
  const auto n = static_cast<extent_t>(m.data.targets.row.size());
  const std::vector<std::int32_t> offsets{0, 6, 6, static_cast<std::int32_t>(n)};
  floats old = normal(n, 21, 0.1), ref = normal(n, 22, 0.1);
  const floats scored = m.score()[0], better{0.5f, 2, -1};
  for (std::size_t i = 0; i < old.size(); ++i) old[i] += scored[i], ref[i] += scored[i];
  tensor<float, 1, D> old_here(m.device, {n}), ref_here(m.device, {n}), better_here(m.device, {3});
  old_here.memory().upload(old), ref_here.memory().upload(ref), better_here.memory().upload(better);
  global_counts counts;
  for (const std::int64_t tokens : {6, 0, static_cast<int>(n) - 6}) counts.add_row(tokens);
  nn::gradients<D> gradients(m.model);
  const auto on_host = [&](auto logp, auto, auto dlogp, auto) {
    token_batch<float> b{.logp = logp, .old_logp = old, .ref_logp = ref, .advantage = per_row(better)};
    b.offsets = offsets;
    evaluate(serial{}, paper::grpo(), b, counts, {.logp = dlogp});
  };
  const auto on_device = [&](auto logp, auto, auto dlogp, auto) {
    token_batch<float, D> b{
        .logp = logp, .old_logp = old_here, .ref_logp = ref_here, .advantage = per_row(better_here)};
    b.offsets = offsets;
    evaluate(m.device, paper::grpo(), b, counts, {.logp = dlogp});
  };
  if (stays)
    nn::forward_backward(m.model, m.space, gradients, m.data.sequences, m.data.targets, 0.8f, false,
                         nn::slopes_on_device{on_device});
  else
    nn::forward_backward(m.model, m.space, gradients, m.data.sequences, m.data.targets, 0.8f, false, on_host);
  floats host(gradients.size());
  m.device.download(host.data(), gradients.data(), host.size() * sizeof(float));
  return host;
}

TEST(npu_model, a_loss_may_stay_on_the_device) {
  cpu host(1);
  machine<cpu> on_host(host, tiny(nn::family::qwen2));
  EXPECT_EQ(grpo_gradient(on_host, true), grpo_gradient(on_host, false));  // the same loop
  emulated_npu on(npu_settings{0, compute::float32});
  machine<npu> on_npu(*on, tiny(nn::family::qwen2));
  const floats here = grpo_gradient(on_npu, true);
  EXPECT_LT(distance(here, grpo_gradient(on_npu, false)), 1e-6);
  EXPECT_LT(distance(here, grpo_gradient(on_host, false)), 1e-4);
}

template <class D>
void expect_scores_on(D& device) {
  machine<D> m(device, tiny(nn::family::qwen2));
  const floats wanted = m.score()[0];
  tensor<float, 1, D> there(device, {static_cast<extent_t>(wanted.size())}), few(device, {1});
  nn::log_probs(m.model, m.space, m.data.sequences, m.data.targets, 0.8f, there);
  floats got(wanted.size());
  there.memory().download(got);
  EXPECT_EQ(got, wanted);
  EXPECT_THROW(nn::log_probs(m.model, m.space, m.data.sequences, m.data.targets, 0.8f, few), std::invalid_argument);
}
TEST(npu_model, scores_may_stay_on_the_device) {
  cpu host(1);
  expect_scores_on(host);
  emulated_npu on(compute::float32);
  expect_scores_on(*on);
}

TEST(npu_model, scores_that_stay_are_not_downloaded) {
  counted_calls calls(emulated_calls());
  npu d(table_provider{&calls.table()}, emulated_npu::exact(compute::float32));
  machine<npu> m(d, tiny(nn::family::qwen2));
  tensor<float, 1, npu> there(d, {static_cast<extent_t>(m.data.targets.row.size())});
  m.score();  // packs the weights
  d.wait();
  calls.clear();
  nn::log_probs(m.model, m.space, m.data.sequences, m.data.targets, 0.8f, there);
  d.wait();
  EXPECT_GT(calls.operators, 50);
  EXPECT_EQ(calls.downloads, 0);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
