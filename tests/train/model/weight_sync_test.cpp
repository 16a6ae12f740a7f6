// Weights go from every training layout to every rollout layout, and no byte too many.
#include "rlcore/train/model/weight_sync.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config small_model() {
  nn::config c;
  c.model = nn::family::qwen2;
  c.vocab_size = 301, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 8, c.num_key_value_heads = 4, c.head_dim = 8;
  c.attention_bias = true;
  c.initializer_range = 0.2;
  return c;
}

std::vector<float> weights(const nn::causal_lm<cpu>& model) {
  return {model.weights().data(), model.weights().data() + model.size()};
}

struct setting {
  int ranks, zero, tensor, rollout;
};

/// Hands over the weights of training as `s` says to rollout models over `s.rollout` tensor parallel ranks each; all of
/// them have to be what the serial model's slices are. Returns the bytes that travelled in rounds.
template <class Wire = float>
std::size_t weight_sync(const setting& s) {
  std::atomic<std::size_t> moved{0};
  parallel::launch_settings threads;
  threads.thread_ranks = s.ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::parallel_settings how;
    how.zero = s.zero, how.tensor = s.tensor;
    parallel::world world(all, how);
    cpu device(1);
    train::trainable_model<cpu> t(device, small_model(), {}, &world);
    {
      const auto whole = t.gather_full_params();
      t.model.initialize(11);
    }
    const nn::partition part{
        .tensor_rank = all.rank() % s.rollout, .tensor_size = s.rollout, .repeats_key_heads = true};
    nn::causal_lm<cpu> rollout(device, small_model(), part), expected(device, small_model(), part);
    rollout.initialize(5);
    expected.initialize(11);
    const train::weight_sync<cpu> hand(t, rollout);
    const std::uint64_t before = all.counters().total().bytes;
    hand.template run<Wire>(t, rollout, 1000);
    const std::uint64_t after = all.counters().total().bytes;
    std::vector<float> truth = weights(expected);
    for (float& x : truth) x = static_cast<float>(Wire(x));
    EXPECT_EQ(weights(rollout), truth) << s.ranks << " " << s.zero << " " << s.rollout;
    moved += hand.plan().sent() * sizeof(Wire);
    // What is sent besides: two numbers and a checksum for each other rank.
    EXPECT_LE(after - before, hand.plan().sent() * sizeof(Wire) + 24 * static_cast<std::size_t>(s.ranks));
  });
  return moved;
}

TEST(weight_sync, from_every_layout_to_every_other) {
  for (const setting& s : {setting{1, 3, 1, 1},
                           {2, 3, 1, 2},
                           {2, 0, 1, 2},
                           {2, 3, 2, 1},
                           {4, 3, 1, 2},
                           {4, 2, 1, 4},
                           {4, 3, 2, 4},
                           {4, 3, 2, 1},
                           {3, 3, 1, 1},
                           {8, 3, 2, 8}})  // two ranks have the same key head
    weight_sync(s);
  weight_sync<bf16>({4, 3, 1, 2});
}

TEST(weight_sync, moves_what_is_not_there_already) {
  cpu device(1);
  const nn::causal_lm<cpu> model(device, small_model());
  const nn::causal_lm<cpu> half(device, small_model(), {0, 2});
  EXPECT_EQ(weight_sync({4, 0, 1, 2}), 0u);  // replicas need nothing
  EXPECT_EQ(weight_sync({2, 0, 2, 2}), 0u);  // nor do those that have their part
  const std::size_t bytes = weight_sync<bf16>({4, 3, 1, 2});
  // Four ranks need 2 M / r bytes each and have some of it: at most their quarter of the model.
  EXPECT_LT(bytes, 4 * 2 * half.size());
  EXPECT_GE(bytes, 4 * 2 * half.size() - 2 * model.size());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
