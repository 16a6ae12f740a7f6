// How much memory an optimizer step takes on one rank, and that its bits do not depend on it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/trainable_model.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using trainable_model = train::trainable_model<any_device>;

nn::config settings(bool tied) {
  nn::config c;
  c.vocab_size = 300, c.hidden_size = 128, c.intermediate_size = 384, c.num_hidden_layers = 6;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 32, c.max_position_embeddings = 64;
  c.tie_word_embeddings = tied;
  return c;
}

struct measured {
  std::vector<float> weights;
  double gradients = 0;  ///< most bytes during the step beyond those before it, in weights
  double kept = 0;       ///< of them after release_gradients()
  double all = 0;        ///< most bytes during the step, in weights
  double between = 0;    ///< bytes between steps, in weights
};

/// One optimizer step on 16 rows in 8 leaves, in passes of so many rows, which are said to have so many tokens.
measured step(bool tied, std::int64_t rows_of_pass, std::int64_t tokens = 8, bool offloads = false) {
  counted_device counted;
  parallel::any_communicator_of<parallel::alone> self{parallel::alone{}};
  parallel::parallel_settings sums;
  sums.leaves = 8;
  train::training_settings training;
  training.adamw.moments.host = offloads;
  trainable_model t(counted.device, settings(tied), training, any_strategy(self, sums));
  t.model.initialize(3);
  const auto pass = [&](std::span<const std::uint32_t> rows) {
    ragged<std::int32_t> sequences;
    nn::targets wanted;
    for (const std::uint32_t row : rows) {
      std::vector<std::int32_t> ids;
      for (std::uint32_t i = 0; i < 8; ++i) {
        wanted.row.push_back(static_cast<std::int32_t>(sequences.values.size() + i));
        ids.push_back(static_cast<std::int32_t>((i * i + 7 * row) % 300));
        wanted.token.push_back((3 * ids.back() + 1) % 300);
      }
      sequences.push_back(ids);
    }
    t.forward_backward(sequences, wanted, 1.0f, [](auto logp, auto, std::span<float> slope, auto) {
      for (std::size_t i = 0; i < slope.size(); ++i) slope[i] = -std::exp(logp[i]);
    });
  };
  const double weights = static_cast<double>(t.model.size() * sizeof(float));
  const auto update = [&] {
    t.begin_update();
    t.for_micro_batches({.rows = 16, .max_rows = rows_of_pass}, [&](std::uint32_t) { return tokens; }, pass);
    EXPECT_GT(t.apply({.lr = 0.01, .grad_clip = 1.0}).gradient_norm, 0);
  };
  update();
  t.release_gradients();
  const std::size_t before = counted.memory.live;
  counted.memory.most = before;
  update();
  measured m;
  m.gradients = static_cast<double>(counted.memory.most - before) / weights;
  m.all = static_cast<double>(counted.memory.most) / weights;
  t.release_gradients();
  m.between = static_cast<double>(counted.memory.live) / weights;
  m.kept = static_cast<double>(counted.memory.live - before) / weights;
  m.weights = train::to_host(t.model.device(), t.model.weights());
  return m;
}

/// A sum waits on each of the three levels of the tree over 8 leaves, and one leaf is in the making: as a whole where
/// it takes two passes, unit by unit where it takes one.
TEST(gradient_memory, of_a_leaf_of_one_pass_is_that_of_a_unit) {
  for (const bool tied : {false, true}) {
    const measured one = step(tied, 2), two = step(tied, 1);
    EXPECT_EQ(one.weights, two.weights) << tied;
    EXPECT_LT(one.gradients, 3.4) << tied;
    EXPECT_GT(two.gradients, 3.9) << tied;
    EXPECT_LT(one.kept, 0.01) << tied;
    EXPECT_LT(two.kept, 0.01) << tied;
  }
}

/// Long passes pack the weights one unit at a time: a packed layer and a packed head instead of a packed model.
TEST(gradient_memory, of_long_passes_has_no_packed_copy_of_the_model) {
  for (const bool tied : {false, true}) {
    const auto longest = static_cast<std::int64_t>(train::long_pass_tokens);
    const measured few = step(tied, 2, longest / 2 - 1), many = step(tied, 2, longest / 2);
    EXPECT_EQ(few.weights, many.weights) << tied;
    EXPECT_LT(many.all, few.all - 0.7) << tied;
  }
}

/// Two floats a weight. (All of so few are staged at once in a step.)
TEST(gradient_memory, of_offloaded_moments_is_on_the_host) {
  const measured here = step(false, 2), offloaded = step(false, 2, 8, true);
  EXPECT_EQ(here.weights, offloaded.weights);
  EXPECT_NEAR(here.between - offloaded.between, 2, 0.001);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
