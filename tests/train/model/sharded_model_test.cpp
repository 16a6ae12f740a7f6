// Training on several ranks: the weights of one rank to the bit, whatever the ranks share; memory and bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "support/counted_device.hpp"
#include "support/tiny_model.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using parallel::parallel_settings;
using parallel::reduction_kind;
using floats = std::vector<float>;

using trainable_model = train::trainable_model<any_device>;

struct task {
  int rows = 11;
  std::int64_t max_rows = 0, max_tokens = 0;
  bool tied = true, score = false, lora = false, recompute = true;
  int steps = 2, layers = 2;
  double clip = 1;
  int poisoned = -1;                ///< step whose gradient is not finite
  std::filesystem::path base = {};  ///< a folder to load instead
  std::int32_t pad = -1;            ///< pad_token_id
};

struct outcome {
  floats weights;
  std::vector<double> norms;
  std::vector<bool> skipped;
  std::uint64_t bytes = 0;                   ///< sent to others in the last step, by all ranks
  std::size_t size = 0;                      ///< parameters
  std::vector<std::size_t> live, most_live;  ///< bytes of each rank's device but for its workspace: after the last
                                             ///< step, and at most in it
};

nn::config model_of(const task& t) {
  nn::config c;
  c.vocab_size = 150, c.hidden_size = 64, c.intermediate_size = 96, c.num_hidden_layers = t.layers;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 16, c.max_position_embeddings = 64;
  c.tie_word_embeddings = t.tied, c.attention_bias = true;
  if (t.score) c.output = nn::model_output::score;
  c.pad_token_id = t.pad;
  return c;
}

nn::config with_output(nn::config c, bool score) {
  if (score) c.output = nn::model_output::score;
  return c;
}

/// One rank's run; every fourth row is masked as a whole.
void train(const task& t, parallel::world* w, outcome& out) {
  counted_device counted;
  any_device& device = counted.device;
  memory_counts& memory = counted.memory;
  train::training_settings s;
  s.decay_norms_and_biases = false, s.recompute = t.recompute;
  s.adamw.weight_decay = 0.1;
  if (t.lora) s.lora = nn::lora_settings{3, 6, {"all-linear"}, 5};
  trainable_model model(device, t.base.empty() ? model_of(t) : with_output(checkpoint::read_config(t.base), t.score), s,
                        w);
  if (t.base.empty()) {
    const auto whole = model.gather_full_params();
    model.model.initialize(7);
  } else {
    train::load_weights(model, t.base);
  }
  const auto sent = [&]() -> std::uint64_t {
    return w ? w->shards().counters().total().bytes + w->replicas().counters().total().bytes : 0;
  };
  std::uint64_t before = 0;
  for (int step = 0; step < t.steps; ++step) {
    before = sent(), memory.most = memory.live;
    model.begin_update();
    const auto length = [&](std::uint32_t r) {
      return 2 + static_cast<std::int64_t>(r * 7 + 5u * static_cast<std::uint32_t>(step)) % 19;
    };
    model.for_micro_batches(
        {.rows = static_cast<std::size_t>(t.rows), .max_rows = t.max_rows, .max_tokens = t.max_tokens}, length,
        [&](std::span<const std::uint32_t> mine) {
          ragged<std::int32_t> sequences;
          nn::targets wanted;
          floats factor;
          for (const std::uint32_t r : mine) {
            std::vector<std::int32_t> ids;
            for (std::int64_t i = 0; i < length(r); ++i) {
              ids.push_back(static_cast<std::int32_t>((i * i + 7 * r + 31 * step) % 150));
              wanted.row.push_back(static_cast<std::int32_t>(sequences.values.size()) + static_cast<std::int32_t>(i));
              wanted.token.push_back((3 * ids.back() + 1) % 150);
              factor.push_back(r % 4 == 2 ? 0.0f : 0.1f);
              if (r == 3 && step == t.poisoned) factor.back() = std::numeric_limits<float>::infinity();
            }
            sequences.push_back(ids);
          }
          if (t.score)
            model.value_forward_backward(sequences, wanted.row,
                                         [&](std::span<const float> value, std::span<float> slope) {
                                           for (std::size_t i = 0; i < slope.size(); ++i)
                                             slope[i] = factor[i] * (value[i] - 1);
                                         });
          else
            model.forward_backward(sequences, wanted, 1.0f, [&](auto logp, auto, std::span<float> slope, auto) {
              for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -factor[i] * std::exp(logp[i]);
            });
        });
    const train::step_outcome did = model.apply({.lr = 0.003, .grad_clip = t.clip});
    out.norms.push_back(did.gradient_norm), out.skipped.push_back(did.skipped);
  }
  out.bytes = sent() - before;
  out.live = {memory.live - model.space.bytes()}, out.most_live = {memory.most - model.space.bytes()};
  out.size = model.model.size();
  const auto whole = model.gather_full_params();
  out.weights = train::to_host(device, std::as_const(model.model).weights());
}

outcome run(int ranks, const parallel_settings& s, const task& t = {}) {
  std::vector<outcome> all(static_cast<std::size_t>(ranks));
  parallel::run_ranks(ranks, [&](parallel::thread_rank& rank) {
    parallel::any_communicator_of<parallel::thread_rank&> c(rank);
    parallel::world w(c, s);
    train(t, &w, all[static_cast<std::size_t>(rank.rank())]);
  });
  outcome first = all[0];
  for (std::size_t r = 1; r < all.size(); ++r) {
    EXPECT_EQ(all[r].weights, first.weights) << r;
    EXPECT_EQ(all[r].skipped, first.skipped) << r;
    EXPECT_TRUE(t.poisoned >= 0 || all[r].norms == first.norms) << r;
    first.bytes += all[r].bytes;
    first.live.push_back(all[r].live[0]), first.most_live.push_back(all[r].most_live[0]);
  }
  return first;
}

parallel_settings how(int zero, reduction_kind kind = reduction_kind::tree) {
  parallel_settings s;
  s.zero = zero, s.reduction = kind;
  return s;
}

TEST(sharded_model, has_the_weights_of_one_rank_on_any_number_of_them_in_any_stage) {
  for (const reduction_kind kind : {reduction_kind::tree, reduction_kind::exact}) {
    const outcome one = run(1, how(0, kind));
    for (const float x : one.weights) ASSERT_TRUE(std::isfinite(x));
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8})
      for (int zero = ranks == 1 ? 1 : 0; zero < 4; ++zero) {
        const outcome many = run(ranks, how(zero, kind));
        EXPECT_EQ(many.weights, one.weights) << ranks << " ranks, zero " << zero;
        EXPECT_EQ(many.norms, one.norms);
      }
  }
}

TEST(sharded_model, may_have_more_ranks_than_rows_and_leaves_without_rows) {
  const task few{.rows = 3};
  const outcome one = run(1, how(3), few);
  for (const int ranks : {2, 5, 8})
    for (int zero = 0; zero < 4; ++zero)
      EXPECT_EQ(run(ranks, how(zero), few).weights, one.weights) << ranks << " " << zero;
}

TEST(sharded_model, shows_neither_micro_batches_nor_what_stays_gathered_nor_what_is_replicated) {
  const outcome one = run(1, how(0));
  for (const std::int64_t rows : {1, 2})
    for (const int zero : {2, 3})
      EXPECT_EQ(run(3, how(zero), {.max_rows = rows, .max_tokens = 20}).weights, one.weights) << rows << " " << zero;
  parallel_settings s = how(3);
  s.reshard_after_forward = false;
  EXPECT_EQ(run(3, s).weights, one.weights);
  EXPECT_EQ(run(2, s, {.recompute = false}).weights, one.weights);
  for (int zero = 1; zero < 4; ++zero) {
    s = how(zero);
    s.shard_ranks = 2;
    EXPECT_EQ(run(6, s).weights, one.weights) << "HSDP, zero " << zero;
  }
}

TEST(sharded_model, packs_units_in_the_chunks_of_the_whole_model) {
  parallel_settings chunks = how(0);
  chunks.tp_reduce_chunks = 4;
  const outcome one = run(1, chunks);
  EXPECT_NE(one.weights, run(1, how(0)).weights);
  chunks.zero = 3;
  EXPECT_EQ(run(3, chunks).weights, one.weights);
}

TEST(sharded_model, trains_untied_heads_scores_and_adapters) {
  const scratch::folder place;
  const std::filesystem::path base = tiny_model::make(place.path()).model;
  for (const task& t : {task{.tied = false}, task{.score = true}, task{.base = base}, task{.score = true, .base = base},
                        task{.lora = true, .base = base}, task{.score = true, .lora = true, .base = base}}) {
    const outcome one = run(1, how(0), t);
    for (int zero = 0; zero < 4; ++zero)
      EXPECT_EQ(run(3, how(zero), t).weights, one.weights) << t.tied << t.score << t.lora << " zero " << zero;
  }
}

// Token 7 is an input of several rows and a target. One rank's gradient is transformers':
// tests/nn/model/padding_test.cpp.
TEST(sharded_model, padding_has_no_input_gradient_on_any_number_of_ranks) {
  for (const task& t : {task{.pad = 7}, task{.tied = false, .pad = 7}, task{.score = true, .pad = 7}}) {
    task without = t;
    without.pad = -1;
    const outcome one = run(1, how(0), t);
    EXPECT_NE(one.weights, run(1, how(0), without).weights);
    for (const int ranks : {1, 3})
      for (int zero = ranks == 1 ? 3 : 1; zero < 4; ++zero)
        EXPECT_EQ(run(ranks, how(zero), t).weights, one.weights) << ranks << " ranks, zero " << zero;
  }
}

TEST(sharded_model, one_leaf_on_one_rank_is_training_without_ranks) {
  outcome plain;
  const task unclipped{.max_rows = 2, .clip = 0};
  train(unclipped, nullptr, plain);
  parallel_settings s = how(0);
  s.leaves = 1;
  EXPECT_EQ(run(1, s, unclipped).weights, plain.weights);
  s.reduction = reduction_kind::ranked;
  s.leaves = 8, s.balance = false;  // one sum that goes on over all leaves
  EXPECT_EQ(run(1, s, unclipped).weights, plain.weights);
}

TEST(sharded_model, skips_a_step_in_all_ranks_or_in_none) {
  for (const reduction_kind kind : {reduction_kind::tree, reduction_kind::exact, reduction_kind::ranked})
    for (int zero = 0; zero < 4; ++zero) {
      const outcome two = run(3, how(zero, kind), {.steps = 3, .poisoned = 1});
      EXPECT_EQ(two.skipped, (std::vector<bool>{false, true, false})) << zero;
      for (const float x : two.weights) ASSERT_TRUE(std::isfinite(x));
    }
}

TEST(sharded_model, bfloat16_on_the_wire_stays_near) {
  const outcome one = run(1, how(3));
  parallel_settings s = how(3);
  s.bf16_wire = true;
  const outcome two = run(4, s);
  EXPECT_NE(two.weights, one.weights);
  EXPECT_NEAR(two.norms[0], one.norms[0], 2e-3 * one.norms[0]);
}

/// Bytes all ranks send together when each of them sends what the others own: once is (P - 1) M 4.
TEST(sharded_model, sends_the_bytes_of_the_formulas) {
  for (const bool tied : {true, false})
    for (const std::uint64_t p : {2u, 4u, 8u}) {
      const task t{.tied = tied};
      const auto sent = [&](int zero, bool keep = false) {
        parallel_settings s = how(zero);
        s.reshard_after_forward = !keep;
        return run(static_cast<int>(p), s, t);
      };
      const outcome ddp = sent(0);
      const std::uint64_t m = ddp.size, once = (p - 1) * m * 4, rounds = 8 / p;
      cpu device(1);
      const nn::causal_lm<cpu> model(device, model_of(t));
      const parallel::shard_layout layout(nn::unit_ends(model.parameters()), static_cast<int>(p));
      std::uint64_t blocks = 0;  // the norm: a double for each block
      for (std::size_t u = 0; u < layout.units(); ++u) blocks += layout.blocks(layout.unit(u).size());
      const std::uint64_t norm = (p - 1) * blocks * 8;
      // zero 3 gathers layers twice, the embedding once for tokens (and once for the head that is tied to it), the head
      // once: what a round of k passes moves is 2 k M but for the units that are needed once
      const std::uint64_t layers = layout.unit(layout.units() - 2).last - layout.unit(0).last,
                          top = layout.unit(layout.units() - 1).size(), embedding = layout.unit(0).size();
      const std::uint64_t gathered = 2 * layers + top + (tied ? 2 : 1) * embedding;
      EXPECT_EQ(ddp.bytes, 2 * once) << p;
      EXPECT_EQ(sent(1).bytes, 2 * once + norm) << p;
      EXPECT_EQ(sent(2).bytes, (rounds + 1) * once + norm) << p;
      EXPECT_EQ(sent(3).bytes, rounds * (once + (p - 1) * gathered * 4) + norm) << p;
      EXPECT_EQ(sent(3, true).bytes, rounds * (once + (p - 1) * (gathered - layers) * 4) + norm) << p;
    }
}

TEST(sharded_model, no_rank_holds_more_than_its_share_and_two_units_in_zero_3) {
  const task deep{.layers = 10};
  const std::size_t ranks = 4;
  const outcome whole = run(static_cast<int>(ranks), how(0), deep), shared = run(static_cast<int>(ranks), how(3), deep);
  EXPECT_EQ(shared.weights, whole.weights);
  const std::size_t model = whole.size * sizeof(float);
  for (std::size_t r = 0; r < ranks; ++r) {
    EXPECT_GT(whole.live[r], 4 * model);  // weights, gradient, two moments
    // a quarter of each, and the memory of units, of which a layer is a tenth: their weights, packed too, and gradients
    EXPECT_LT(shared.most_live[r], model + 8 * model / 10) << r;
  }
}

TEST(sharded_model, an_old_loop_is_told_that_rows_have_to_be_dealt) {
  EXPECT_THROW(parallel::run_ranks(2,
                                   [](parallel::thread_rank& rank) {
                                     parallel::any_communicator_of<parallel::thread_rank&> c(rank);
                                     parallel::world w(c, how(0));
                                     any_device_of<cpu> device(1);
                                     trainable_model model(device, model_of({}), {}, &w);
                                     model.begin_update();
                                     model.apply({.lr = 0.1});
                                   }),
               std::logic_error);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
