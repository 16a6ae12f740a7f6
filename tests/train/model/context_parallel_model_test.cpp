// Whole optimizer steps of meshes with a context parallel axis, on threads: whatever the data parallel axis and the
// shards, the same bits, which differ from those of one rank by the order in which a leaf's tokens are added.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::context_kind;

nn::config small_model() {
  nn::config c;
  c.vocab_size = 101, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 8;
  c.tie_word_embeddings = c.attention_bias = true;
  c.initializer_range = 0.2;
  return c;
}

struct result {
  std::vector<float> weights, logp;  ///< after the steps; of every token in the first one, as rank 0 was told
  std::vector<double> norms;
};

/// Two steps over seven rows, long and short.
result train(int ranks, const parallel::parallel_settings& how) {
  result r;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    train::training_settings s;
    s.recompute = true;
    if (ranks > 1) s.long_pass_tokens = 1;  // weights packed unit by unit, to the same bits
    train::trainable_model<cpu> t(device, small_model(), s, &world);
    {
      const auto whole = t.gather_full_params();
      t.model.initialize(11);
    }
    std::vector<std::vector<std::int32_t>> rows;
    for (const std::uint32_t length : {200u, 3u, 70u, 9u, 150u, 31u, 2u}) {
      rows.emplace_back();
      for (std::uint32_t n = 0; n < length; ++n)
        rows.back().push_back(static_cast<std::int32_t>(random_key{3}.below(101, length, n)));
    }
    for (int step = 0; step < 2; ++step) {
      t.begin_update();
      t.for_micro_batches(
          {.rows = rows.size(), .max_rows = 2}, [&](std::uint32_t i) { return rows[i].size(); },
          [&](std::span<const std::uint32_t> some) {
            train::packed_answers batch;  // every token but the first of a row is a target
            for (const std::uint32_t i : some) batch.push_back(rows[i], 1);
            t.forward_backward(
                batch.inputs, batch.targets, 1.0f,
                [&](std::span<const float> logp, std::span<const float>, std::span<float> dlogp, std::span<float>) {
                  std::fill(dlogp.begin(), dlogp.end(), -0.01f);
                  if (step == 0 && all.rank() == 0) r.logp.insert(r.logp.end(), logp.begin(), logp.end());
                });
          });
      const train::step_outcome outcome = t.apply({.lr = 1e-3, .grad_clip = 0.01});
      EXPECT_FALSE(outcome.skipped);
      if (all.rank() == 0) r.norms.push_back(outcome.gradient_norm);
    }
    const auto whole = t.gather_full_params();
    if (all.rank() == 0) r.weights.assign(t.model.weights().data(), t.model.weights().data() + t.model.size());
  });
  return r;
}

class context_parallel_model : public testing::TestWithParam<context_kind> {};

TEST_P(context_parallel_model, steps) {
  const auto mesh = [](int context, int zero) {
    parallel::parallel_settings s;
    s.context = context, s.zero = zero, s.how_context = GetParam();
    return s;
  };
  const result one = train(1, {}), two = train(2, mesh(2, 0));
  EXPECT_EQ(two.logp, one.logp);
  for (std::size_t i = 0; i < one.norms.size(); ++i) EXPECT_NEAR(two.norms[i] / one.norms[i], 1, 1e-5);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < one.weights.size(); ++i) {
    difference += std::pow(static_cast<double>(two.weights[i]) - static_cast<double>(one.weights[i]), 2);
    size += std::pow(static_cast<double>(one.weights[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-4);
  for (const int zero : {1, 2, 3}) EXPECT_EQ(train(2, mesh(2, zero)).weights, two.weights) << "zero " << zero;
  for (const int zero : {0, 3}) EXPECT_EQ(train(4, mesh(2, zero)).weights, two.weights) << "data 2, zero " << zero;
}

INSTANTIATE_TEST_SUITE_P(kinds, context_parallel_model,
                         testing::Values(context_kind::gather_kv, context_kind::ring, context_kind::ulysses),
                         [](const auto& i) {
                           return std::string(i.param == context_kind::gather_kv ? "gather_kv"
                                              : i.param == context_kind::ring    ? "ring"
                                                                                 : "ulysses");
                         });

}  // namespace
}  // namespace RLCORE_TEST_ID
