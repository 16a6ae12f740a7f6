// Weights go from every training layout to every rollout layout, and no byte too many.
#include "rlcore/train/model/weight_sync.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
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

/// f(ranks, device, trained model, this rank's part of a rollout model) on every rank of training as `s` says.
template <class F>
void on_ranks(const setting& s, const nn::config& c, compute type, F&& f) {
  parallel::launch_settings threads;
  threads.thread_ranks = s.ranks;
  threads.deadline = std::chrono::seconds(60);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::parallel_settings how;
    how.zero = s.zero, how.tensor = s.tensor;
    parallel::world world(all, how);
    cpu device(1, {}, type);
    train::trainable_model<cpu> t(device, c, {}, &world);
    f(all, device, t, nn::sampling_part(c, all.rank() % s.rollout, s.rollout));
  });
}
/// Its weights are those that the seed gives.
void initialize(train::trainable_model<cpu>& t, std::uint64_t seed) {
  const auto whole = t.gather_full_params();
  t.model.initialize(seed);
}

/// Hands over the weights of training as `s` says to rollout models over `s.rollout` tensor parallel ranks each; all of
/// them have to be what the serial model's slices are. Returns the bytes that travelled in rounds.
template <class Wire = float>
std::size_t weight_sync(const setting& s) {
  std::atomic<std::size_t> moved{0};
  on_ranks(s, small_model(), compute::float32, [&](auto& all, cpu& device, auto& t, const nn::partition& part) {
    initialize(t, 11);
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
    moved += hand.sent() * sizeof(Wire);
    // What is sent besides: two numbers and a checksum for each other rank.
    EXPECT_LE(after - before, hand.sent() * sizeof(Wire) + 24 * static_cast<std::size_t>(s.ranks));
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

/// The same into models whose weights are only packed, in `format`: the bytes that the slices' packed copies have.
void packed_sync(const setting& s, compute type, std::optional<weight_format> format, bool tied,
                 nn::family family = nn::family::qwen2) {
  SCOPED_TRACE(std::to_string(s.ranks) + " " + std::to_string(s.zero) + " " + std::to_string(s.rollout));
  nn::config c = small_model();
  c.tie_word_embeddings = tied;
  c.model = family, c.attention_bias = family == nn::family::qwen2;
  c.num_experts = 4, c.num_experts_per_tok = 2, c.moe_intermediate_size = 16;  // of qwen3_moe alone
  on_ranks(s, c, type, [&](auto&, cpu& device, auto& t, const nn::partition& part) {
    nn::causal_lm<cpu> rollout(device, c, part, nn::weights_in::packed), expected(device, c, part);
    const train::weight_sync<cpu> hand(t, rollout);
    for (const std::uint64_t seed : {11, 12}) {
      initialize(t, seed);
      expected.initialize(seed);
      hand.run(t, rollout, 1000, format);
      const weight_format packed = format.value_or(device.compute_format());
      const nn::packed_view got = rollout.packed(packed), wanted = expected.packed(packed);
      for (std::size_t n = 0; n < expected.matrices().size(); ++n) {
        const std::size_t bytes = nn::packed_bytes_of(device, packed, expected.matrices()[n]);
        EXPECT_EQ(std::memcmp(got.at(n), wanted.at(n), bytes), 0) << n;
      }
      const float* vectors = std::as_const(rollout).weights().data();
      for (const nn::parameter& p : expected.parameters()) {
        const float* values = std::as_const(expected).weights().data() + p.offset;
        if (p.shape.size() == 1) {
          EXPECT_TRUE(std::equal(values, values + p.size, std::exchange(vectors, vectors + p.size)));
        } else if (p.offset == 0 && rollout.embedding_rows() != nullptr) {
          EXPECT_TRUE(std::equal(values, values + p.size, rollout.embedding_rows()));
        }
      }
      EXPECT_EQ(rollout.embedding_rows() == nullptr, packed == weight_format::float32);
      rollout.free_weights();
    }
  });
}

TEST(weight_sync, packs_unit_by_unit) {
  for (const setting& s : {setting{2, 3, 1, 1}, {2, 3, 1, 2}, {4, 3, 2, 1}, {8, 3, 2, 8}, {2, 0, 2, 1}}) {
    packed_sync(s, compute::float32, {}, false);
    packed_sync(s, compute::bfloat16, {}, true);
    packed_sync(s, compute::float32, weight_format::int8, true);
  }
  packed_sync({1, 3, 1, 1}, compute::float32, {}, true);
  packed_sync({2, 3, 1, 1}, compute::bfloat16, {}, false);
  packed_sync({2, 3, 1, 1}, compute::bfloat16, {}, false, nn::family::qwen3_moe);
  packed_sync({2, 3, 1, 2}, compute::float32, {}, true, nn::family::qwen3_moe);
}

TEST(weight_sync, a_format_is_for_packed_weights) {
  on_ranks({1, 0, 1, 1}, small_model(), compute::float32, [](auto&, cpu& device, auto& t, const nn::partition&) {
    nn::causal_lm<cpu> floats(device, small_model());
    EXPECT_THROW(train::weight_sync<cpu>(t, floats).run(t, floats, 1000, weight_format::int8), std::invalid_argument);
  });
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
