// Whole optimizer steps of a mixture of experts on threads: whatever the ranks, the shards and the division of the
// experts, the bits of one rank; with a load-balancing loss too.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/train/model/scored_groups.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "rlcore/train/preference/answer_loss.hpp"

namespace RLCORE_TEST_ID {
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
  int ranks = 1, expert = 1, zero = 0, context = 1, shard_ranks = 0;
  bool balanced = false, recompute = false;
  parallel::reduction_kind reduction = parallel::reduction_kind::tree;
  std::int64_t rows_each = 2;
};

struct result {
  std::vector<float> weights;
  std::vector<double> norms;
  double loss = 0;          ///< load-balancing
  std::vector<float> logp;  ///< of the rows, of the trained model
  std::size_t weights_of_rank = 0, moments_of_rank = 0;
  std::uint64_t bytes = 0;  ///< that ranks with the same experts sent each other
};

/// Two steps over nine rows, of which eight leaves get one or two each.
result train(const how_to_train& how) {
  result r;
  std::atomic<std::uint64_t> bytes{0};
  parallel::launch(
      {.thread_ranks = how.ranks, .deadline = std::chrono::seconds(60)}, [&](parallel::any_communicator& all) {
        parallel::parallel_settings mesh;
        mesh.expert = how.expert, mesh.zero = how.zero, mesh.context = how.context, mesh.reduction = how.reduction;
        mesh.shard_ranks = how.shard_ranks;
        parallel::world world(all, mesh);
        cpu device(1);
        train::training_settings s;
        s.recompute = how.recompute;
        train::trainable_model<cpu> t(device, small_model(how.balanced), s, &world);
        {
          const auto whole = t.gather_full_params();
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
              {.rows = rows.size(), .max_rows = how.rows_each}, [&](std::uint32_t i) { return rows[i].size(); },
              [&](std::span<const std::uint32_t> some) {
                train::packed_answers batch;  // every token but the first of a row is a target
                for (const std::uint32_t i : some) batch.push_back(rows[i], 1);
                t.forward_backward(batch.inputs, batch.targets, 1.0f, [&](auto, auto, std::span<float> dlogp, auto) {
                  if (some[0] != 4) std::fill(dlogp.begin(), dlogp.end(), -0.01f);  // a pass without a gradient
                });
              });
          const train::step_outcome outcome = t.apply({.lr = 1e-3, .grad_clip = 0.01});
          EXPECT_FALSE(outcome.skipped);
          if (all.rank() == 0) r.norms.push_back(outcome.gradient_norm);
        }
        if (all.rank() == 0) r.loss = nn::load_balancing_loss(t.routed());
        std::vector<float> logp;  // without a gathering of full parameters
        train::for_each_scored_group(
            {t.model.units()}, rows.size(), 4, 0, [&](std::size_t i) { return rows[i].size(); },
            [&](std::size_t first, std::size_t last) {
              train::packed_answers batch;
              for (std::size_t i = first; i < last; ++i) batch.push_back(rows[i], 1);
              const std::size_t before = logp.size();
              logp.resize(before + batch.targets.row.size());
              nn::log_probs(t.model, t.space, batch.inputs, batch.targets, 1.0f, std::span(logp).subspan(before), {});
            });
        if (all.rank() == 0)
          r.logp = logp, r.weights_of_rank = t.passing().size(), r.moments_of_rank = t.optimizer().size();
        if (how.expert > 1) {
          const parallel::sum_place same = world.place_in_experts();
          bytes += same.shards->counters().total().bytes + same.replicas->counters().total().bytes;
        }
        const auto whole = t.gather_full_params();
        if (all.rank() == 0) r.weights.assign(t.model.weights().data(), t.model.weights().data() + t.model.size());
      });
  r.bytes = bytes;
  return r;
}

void expect_equal(const result& a, const result& b, const std::string& what) {
  EXPECT_TRUE(a.weights == b.weights) << what;
  EXPECT_EQ(a.norms, b.norms) << what;
  EXPECT_TRUE(a.logp == b.logp) << what;
  EXPECT_EQ(a.loss, b.loss) << what;
}

TEST(expert_parallel_model, the_bits_of_one_rank) {
  const result one = train({});
  expect_equal(one, train({.rows_each = 1}), "one row at a time");
  for (const int zero : {0, 1, 2, 3}) {
    const std::string name = "zero " + std::to_string(zero);
    expect_equal(one, train({.ranks = 2, .zero = zero}), name + ", experts everywhere");
    expect_equal(one, train({.ranks = 2, .expert = 2, .zero = zero, .recompute = zero == 3}), name);
  }
  expect_equal(one, train({.ranks = 4, .expert = 2, .zero = 3, .rows_each = 1}), "4 ranks in pairs");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 0}), "4 ranks");
  for (const int zero : {0, 1, 2})
    expect_equal(one, train({.ranks = 4, .expert = 2, .zero = zero}), "pairs, zero " + std::to_string(zero));
  expect_equal(one, train({.ranks = 8, .expert = 2, .zero = 1, .shard_ranks = 4}), "pairs of pairs");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 2, .shard_ranks = 2}), "shards of half the experts' ranks");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 1}), "6 experts on 4 ranks");
}

/// A rank of 2 x 3 has a third of the experts; with zero 1 and 2 the optimizer of each holds a half of theirs, and a
/// sixth of everything else.
TEST(expert_parallel_model, holds_its_experts_alone) {
  const nn::config c = small_model(false);
  cpu device(1);
  const nn::causal_lm<cpu> whole(device, c);
  const auto experts = static_cast<std::size_t>(2 * 6 * 3 * c.hidden_size * c.moe_intermediate_size);
  const std::size_t others = whole.size() - experts, block = parallel::shard_layout::block;
  const result one = train({});
  EXPECT_EQ(one.weights_of_rank, whole.size());
  for (const int zero : {0, 1, 2}) {
    const result third = train({.ranks = 6, .expert = 3, .zero = zero});
    expect_equal(one, third, "zero " + std::to_string(zero));
    EXPECT_EQ(third.weights_of_rank, others + experts / 3);
    if (zero == 0) {
      EXPECT_EQ(third.moments_of_rank, others + experts / 3);
    } else {
      EXPECT_LE(third.moments_of_rank, others / 6 + experts / 6 + 7 * block);
    }
  }
}

/// Sums go to their owners and back, or their owners' weights do; blocks' squares are of 8 bytes. Everything else
/// travels between the ranks of a group.
TEST(expert_parallel_model, gradients_of_experts_travel_between_ranks_that_have_them) {
  const nn::config c = small_model(false);
  const auto own = static_cast<std::uint64_t>(2 * 3 * 3 * c.hidden_size * c.moe_intermediate_size);  // half of 6 x 2
  const std::uint64_t groups = 2, steps = 2, blocks = 2 * 3 * 3;  // 2304 values are three blocks
  EXPECT_EQ(train({.ranks = 2, .expert = 2}).bytes, 0u);
  EXPECT_EQ(train({.ranks = 4, .expert = 2}).bytes, groups * steps * 2 * own * 4);
  EXPECT_EQ(train({.ranks = 4, .expert = 2, .zero = 1}).bytes, groups * steps * (2 * own * 4 + blocks * 8));
  EXPECT_EQ(train({.ranks = 4, .expert = 2, .zero = 1, .reduction = parallel::reduction_kind::exact}).bytes,
            groups * steps * (3 * own * 4 + blocks * 8));
}

TEST(expert_parallel_model, ranked_sums_are_close_and_the_same_again) {
  const auto ranked = parallel::reduction_kind::ranked;
  const result one = train({});
  for (const int zero : {0, 1, 2}) {
    const how_to_train how{.ranks = 4, .expert = 2, .zero = zero, .reduction = ranked};
    const result pairs = train(how);
    expect_equal(pairs, train(how), "again");
    ASSERT_EQ(pairs.norms.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_NEAR(pairs.norms[i], one.norms[i], 1e-5 * one.norms[i]) << zero;
    ASSERT_EQ(pairs.weights.size(), one.weights.size());
    for (std::size_t i = 0; i < one.weights.size(); ++i) ASSERT_NEAR(pairs.weights[i], one.weights[i], 2e-4) << zero;
  }
}

TEST(expert_parallel_model, exact_sums_on_three_ranks) {
  const auto exact = parallel::reduction_kind::exact;
  const result one = train({.reduction = exact});
  for (const int zero : {0, 1, 2})
    expect_equal(one, train({.ranks = 3, .expert = 3, .zero = zero, .reduction = exact}), "3 ranks");
  expect_equal(one, train({.ranks = 4, .expert = 2, .zero = 1, .reduction = exact}), "4 ranks");
}

TEST(expert_parallel_model, load_balancing) {
  const result one = train({.balanced = true}), without = train({});
  EXPECT_GE(one.loss, 2);  // 2 experts per token: 2 is the least
  EXPECT_NE(one.norms, without.norms);
  expect_equal(one, train({.balanced = true, .rows_each = 1}), "one row at a time");
  expect_equal(one, train({.ranks = 2, .zero = 3, .balanced = true}), "zero 3");
  expect_equal(one, train({.ranks = 2, .expert = 2, .zero = 1, .balanced = true}), "2 ranks");
  expect_equal(one, train({.ranks = 4, .expert = 4, .zero = 3, .balanced = true}), "4 ranks, zero 3");
}

/// Context parallel ranks give a sequence's rows to the experts of both.
TEST(expert_parallel_model, with_context_parallel) {
  const result context = train({.ranks = 2, .context = 2});
  expect_equal(context, train({.ranks = 2, .expert = 2, .context = 2}), "2 ranks");
  expect_equal(context, train({.ranks = 4, .expert = 4, .zero = 3, .context = 2}), "4 ranks, zero 3");
}

TEST(expert_parallel_model, refusals) {
  parallel::launch({.thread_ranks = 2, .deadline = std::chrono::seconds(60)}, [&](parallel::any_communicator& all) {
    parallel::parallel_settings mesh;
    mesh.expert = 2;
    parallel::world world(all, mesh);
    cpu device(1);
    nn::config dense = small_model(false);
    dense.model = nn::family::qwen3;
    EXPECT_THROW((train::trainable_model<cpu>(device, dense, {}, &world)), config_error);
    train::training_settings s;
    s.lora.emplace();
    EXPECT_THROW((train::trainable_model<cpu>(device, small_model(false), s, &world)), config_error);
  });
}

}  // namespace
}  // namespace RLCORE_TEST_ID
