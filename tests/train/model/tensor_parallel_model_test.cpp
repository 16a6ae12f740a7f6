// Whole optimizer steps of meshes with a tensor parallel axis, on threads: the weights of one rank to the bit.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config small_model(nn::family family) {
  nn::config c;
  c.model = family;
  c.vocab_size = 301, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 8;
  c.tie_word_embeddings = c.attention_bias = family == nn::family::qwen2;
  c.initializer_range = 0.2;
  if (family == nn::family::qwen3_moe) {
    c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  }
  return c;
}

struct result {
  std::map<std::string, std::vector<float>> weights;  ///< whole tensors
  std::vector<double> norms;
};

/// Three steps over rows of unequal lengths, with a norm that is clipped. Goes on from `resume` and saves to `save`
/// what there is after the second step, unless they are empty.
result train(nn::family family, int ranks, parallel::parallel_settings how, const std::filesystem::path& save = {},
             const std::filesystem::path& resume = {}, std::int32_t pad = -1, bool adapters = false) {
  how.tp_reduce_chunks = 4;
  result r;
  std::mutex writing;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(20);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    train::training_settings s;
    s.adamw.weight_decay = 0.1;
    if (ranks > 1) s.long_pass_tokens = 1;  // weights packed unit by unit, to the same bits
    if (adapters) s.lora = nn::lora_settings{4, 8};
    nn::config c = small_model(family);
    c.pad_token_id = pad;
    train::trainable_model<cpu> t(device, c, s, &world);
    if (resume.empty()) {
      {
        const auto whole = t.gather_full_params();
        t.model.initialize(11);
      }
      if (adapters) t.attach_adapters({});
    } else {
      train::restore_checkpoint(t, resume);
    }
    std::vector<std::vector<std::int32_t>> rows;
    for (std::uint32_t i = 0; i < 11; ++i) {
      rows.emplace_back();
      for (std::uint32_t n = 0; n < 3 + 7 * i % 23; ++n)
        rows.back().push_back(static_cast<std::int32_t>(random_key{3}.below(301, i, n)));
    }
    for (int step = resume.empty() ? 0 : 2; step < 3; ++step) {
      if (step == 2 && !save.empty()) train::save_checkpoint(t, save, save.parent_path());
      t.begin_update();
      t.for_micro_batches(
          {.rows = rows.size(), .max_rows = 3}, [&](std::uint32_t i) { return rows[i].size(); },
          [&](std::span<const std::uint32_t> some) {
            train::packed_answers batch;  // every token but the first of a row is a target
            for (const std::uint32_t i : some) batch.push_back(rows[i], 1);
            t.forward_backward(batch.inputs, batch.targets, 1.0f,
                               [&](std::span<const float>, std::span<const float>, std::span<float> dlogp,
                                   std::span<float>) { std::fill(dlogp.begin(), dlogp.end(), -0.01f); });
          });
      const train::step_outcome outcome = t.apply({.lr = 1e-2, .grad_clip = 0.01});
      EXPECT_FALSE(outcome.skipped);
      if (all.rank() == 0) r.norms.push_back(outcome.gradient_norm);
    }
    const auto whole = t.gather_full_params();
    const std::lock_guard<std::mutex> lock(writing);
    for (const nn::parameter& p : t.model.parameters()) {
      std::size_t size = 1;
      for (const std::int64_t n : p.whole_shape()) size *= static_cast<std::size_t>(n);
      std::vector<float>& values = r.weights[p.name];
      const bool first = values.empty();
      values.resize(size);
      p.for_runs([&](std::size_t at, std::uint64_t to, std::size_t count) {
        const float* own = t.model.weights().data() + p.offset + at;
        if (!first && !p.split()) {
          EXPECT_EQ(std::memcmp(values.data() + to, own, count * sizeof(float)), 0) << p.name;
        }
        std::memcpy(values.data() + to, own, count * sizeof(float));
      });
    }
  });
  return r;
}

void expect_same(const result& a, const result& b) {
  for (const auto& [name, values] : a.weights) EXPECT_EQ(values, b.weights.at(name)) << name;
  EXPECT_EQ(a.norms, b.norms);
}

class tensor_parallel_model : public testing::TestWithParam<nn::family> {};

TEST_P(tensor_parallel_model, steps_have_the_bits_of_one_rank) {
  const result alone = train(GetParam(), 1, {});
  EXPECT_GT(alone.norms[0], 0.01);
  const auto mesh = [](int tensor, int zero, bool sequence) {
    parallel::parallel_settings s;
    s.tensor = tensor, s.zero = zero, s.sequence_parallel = sequence;
    return s;
  };
  const auto expect = [&](const char* what, int ranks, const parallel::parallel_settings& s) {
    SCOPED_TRACE(what);
    expect_same(train(GetParam(), ranks, s), alone);
  };
  expect("tensor 2", 2, mesh(2, 0, false));
  expect("tensor 4, sequence parallel", 4, mesh(4, 0, true));
  expect("data 2 x tensor 2, zero 1", 4, mesh(2, 1, false));
  expect("data 2 x tensor 2, zero 3, sequence parallel", 4, mesh(2, 3, true));
  if (GetParam() != nn::family::qwen3_moe) return;
  parallel::parallel_settings s = mesh(2, 2, true);
  s.expert = 2;
  expect("data 2 x tensor 2, expert 2 over data", 4, s);
}

/// Adapters of every linear, experts included: their A of split inputs and their B of split outputs are split, the
/// others are on all tensor parallel ranks.
TEST_P(tensor_parallel_model, steps_of_adapters_have_the_bits_of_one_rank) {
  const auto adapted = [&](int ranks, const parallel::parallel_settings& s) {
    return train(GetParam(), ranks, s, {}, {}, -1, true);
  };
  const result alone = adapted(1, {});
  EXPECT_GT(alone.norms[2], 0.01);
  EXPECT_FALSE(alone.weights == train(GetParam(), 1, {}).weights);
  for (const int tensor : {2, 4})
    for (const int zero : {0, 1, 3})
      for (const bool sequence : {false, true}) {
        SCOPED_TRACE(testing::Message() << "tensor " << tensor << ", zero " << zero << ", sequence " << sequence);
        parallel::parallel_settings s;
        s.tensor = tensor, s.zero = zero, s.sequence_parallel = sequence;
        expect_same(adapted(zero == 0 ? tensor : 4, s), alone);
      }
}

// One rank's gradient is transformers': tests/nn/model/padding_test.cpp.
TEST_P(tensor_parallel_model, padding_has_the_bits_of_one_rank) {
  const auto pad = static_cast<std::int32_t>(random_key{3}.below(301, 4, 1));  // an input of the first step
  const result alone = train(GetParam(), 1, {}, {}, {}, pad);
  EXPECT_NE(alone.weights, train(GetParam(), 1, {}).weights);
  parallel::parallel_settings s;
  s.tensor = 2;
  expect_same(train(GetParam(), 2, s, {}, {}, pad), alone);
  s.zero = 3, s.sequence_parallel = true;
  expect_same(train(GetParam(), 4, s, {}, {}, pad), alone);
}

TEST_P(tensor_parallel_model, go_on_from_checkpoints_of_other_meshes) {
  namespace fs = std::filesystem;
  const scratch::folder place;
  const fs::path& root = place.path();
  fs::create_directories(root / "one");
  fs::create_directories(root / "many");
  std::ofstream(root / "tokenizer.json") << "{}";
  const result alone = train(GetParam(), 1, {}, root / "one");
  parallel::parallel_settings s;
  s.tensor = 2, s.zero = 3, s.sequence_parallel = true;
  expect_same(train(GetParam(), 4, s, root / "many"), alone);
  const auto expect_end = [&](const result& r) {
    for (const auto& [name, values] : alone.weights) EXPECT_EQ(r.weights.at(name), values) << name;
  };
  expect_end(train(GetParam(), 1, {}, {}, root / "many"));
  expect_end(train(GetParam(), 4, s, {}, root / "one"));
  s.tensor = 4, s.zero = 1;
  expect_end(train(GetParam(), 4, s, {}, root / "many"));
}

TEST_P(tensor_parallel_model, context_and_tensor_parallelism_go_together) {
  parallel::parallel_settings s;
  s.context = 2, s.zero = 2, s.how_context = parallel::context_kind::ring;
  const result context = train(GetParam(), 2, s);
  s.tensor = 2;
  expect_same(train(GetParam(), 4, s), context);
  s.sequence_parallel = true;
  expect_same(train(GetParam(), 4, s), context);
}

INSTANTIATE_TEST_SUITE_P(families, tensor_parallel_model,
                         testing::Values(nn::family::qwen2, nn::family::qwen3, nn::family::qwen3_moe));

}  // namespace
}  // namespace RLCORE_TEST_ID
