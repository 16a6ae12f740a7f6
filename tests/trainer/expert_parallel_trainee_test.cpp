// Whole optimizer steps of a mixture of experts on threads: whatever the ranks, the shards and the division of the
// experts, the bits of one rank; with a load-balancing loss too.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/trainer/preference/packed_answers.hpp"
#include "rlcore/trainer/trainee.hpp"

namespace {

using namespace rlcore;

nn::config small_model(bool balanced) {
  nn::config c;
  c.model = nn::family::qwen3_moe;
  c.vocab_size = 101, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 3;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8;
  c.tie_word_embeddings = true, c.attention_bias = false;
  c.initializer_range = 0.2;
  c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24, c.norm_topk_prob = true;
  c.mlp_only_layers = {1};
  c.output_router_logits = balanced, c.router_aux_loss_coef = 0.5;
  return c;
}

struct how_to_train {
  int ranks = 1, expert = 1, zero = 0, context = 1;
  bool balanced = false, recompute = false;
  parallel::reduction_kind reduction = parallel::reduction_kind::tree;
  std::int64_t rows_each = 2;
};

struct result {
  std::vector<float> weights;
  std::vector<double> norms;
  double loss = 0;  ///< load-balancing
};

/// Two steps over nine rows, of which eight leaves get one or two each.
result train(const how_to_train& how) {
  result r;
  parallel::launch(
      {.thread_ranks = how.ranks, .deadline = std::chrono::seconds(60)}, [&](parallel::any_communicator& all) {
        parallel::parallel_settings mesh;
        mesh.expert = how.expert, mesh.zero = how.zero, mesh.context = how.context, mesh.reduction = how.reduction;
        parallel::world world(all, mesh);
        cpu device(1);
        trainer::trainee_settings s;
        s.recompute = how.recompute;
        trainer::trainee<cpu> t(device, small_model(how.balanced), s, &world);
        {
          const auto whole = t.summon();
          t.model.initialize(11);
        }
        std::vector<std::vector<std::int32_t>> rows;
        for (const std::uint32_t length : {40u, 3u, 22u, 9u, 50u, 31u, 2u, 17u, 5u}) {
          rows.emplace_back();
          for (std::uint32_t n = 0; n < length; ++n)
            rows.back().push_back(static_cast<std::int32_t>(random_key{3}.below(101, length, n)));
        }
        for (int step = 0; step < 2; ++step) {
          t.begin_update();
          t.for_micro_batches(
              rows.size(), how.rows_each, 0, [&](std::uint32_t i) { return rows[i].size(); },
              [&](std::span<const std::uint32_t> some) {
                trainer::packed_answers batch;  // every token but the first of a row is a target
                for (const std::uint32_t i : some) batch.push_back(rows[i], 1);
                t.forward_backward(batch.inputs, batch.targets, 1.0f, [&](auto, auto, std::span<float> dlogp, auto) {
                  if (some[0] != 4) std::fill(dlogp.begin(), dlogp.end(), -0.01f);  // a pass without a gradient
                });
              });
          const trainer::step_outcome outcome = t.apply(1e-3, 0.01);
          EXPECT_FALSE(outcome.skipped);
          if (all.rank() == 0) r.norms.push_back(outcome.gradient_norm);
        }
        if (all.rank() == 0) r.loss = nn::load_balancing_loss(t.routed());
        const auto whole = t.summon();
        if (all.rank() == 0) r.weights.assign(t.model.weights().data(), t.model.weights().data() + t.model.size());
      });
  return r;
}

void expect_equal(const result& a, const result& b, const std::string& what) {
  EXPECT_TRUE(a.weights == b.weights) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_EQ(a.loss, b.loss) << what;
}

TEST(expert_parallel_trainee, the_bits_of_one_rank) {
  const result one = train({});
  expect_equal(one, train({.rows_each = 1}), "one row at a time");
  for (const int zero : {0, 1, 2, 3}) {
    const std::string name = "zero " + std::to_string(zero);
    expect_equal(one, train({.ranks = 2, .zero = zero}), name + ", experts everywhere");
    expect_equal(one, train({.ranks = 2, .expert = 2, .zero = zero, .recompute = zero == 3}), name);
  }
  expect_equal(one, train({.ranks = 4, .expert = 2, .zero = 3, .rows_each = 1}), "4 ranks in pairs");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 0}), "4 ranks");
}

TEST(expert_parallel_trainee, exact_sums_on_three_ranks) {
  const auto exact = parallel::reduction_kind::exact;
  const result one = train({.reduction = exact});
  expect_equal(one, train({.ranks = 3, .expert = 3, .zero = 2, .reduction = exact}), "3 ranks");
}

TEST(expert_parallel_trainee, load_balancing) {
  const result one = train({.balanced = true}), without = train({});
  EXPECT_GE(one.loss, 2);  // 2 experts per token: 2 is the least
  EXPECT_NE(one.norms, without.norms);
  expect_equal(one, train({.balanced = true, .rows_each = 1}), "one row at a time");
  expect_equal(one, train({.ranks = 2, .zero = 3, .balanced = true}), "zero 3");
  expect_equal(one, train({.ranks = 2, .expert = 2, .zero = 1, .balanced = true}), "2 ranks");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 3, .balanced = true}), "4 ranks, zero 3");
}

/// Context parallel ranks give a sequence's rows to the experts of both.
TEST(expert_parallel_trainee, with_context_parallel) {
  const result context = train({.ranks = 2, .context = 2});
  expect_equal(context, train({.ranks = 2, .expert = 2, .context = 2}), "2 ranks");
  expect_equal(context, train({.ranks = 4, .expert = 4, .zero = 3, .context = 2}), "4 ranks, zero 3");
}

TEST(expert_parallel_trainee, refusals) {
  parallel::launch({.thread_ranks = 2, .deadline = std::chrono::seconds(60)}, [&](parallel::any_communicator& all) {
    parallel::parallel_settings mesh;
    mesh.expert = 2;
    parallel::world world(all, mesh);
    cpu device(1);
    nn::config dense = small_model(false);
    dense.model = nn::family::qwen3;
    EXPECT_THROW((trainer::trainee<cpu>(device, dense, {}, &world)), config_error);
    trainer::trainee_settings s;
    s.lora.emplace();
    EXPECT_THROW((trainer::trainee<cpu>(device, small_model(false), s, &world)), config_error);
  });
}

}  // namespace
