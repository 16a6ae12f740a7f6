// The number of a model's parameters is that of the whole model, on whatever rank.
#include "rlcore/train/model/parameters_text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <set>
#include <string>

#include "rlcore/device/cpu.hpp"
#include "rlcore/parallel/launch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config small_model(nn::family family) {
  nn::config c;
  c.model = family;
  c.vocab_size = 320, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8;
  c.tie_word_embeddings = true, c.attention_bias = false;
  if (family == nn::family::qwen3_moe) c.num_experts = 4, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  return c;
}

/// What the ranks say.
std::set<std::string> texts(nn::family family, int ranks, const parallel::parallel_settings& how) {
  std::set<std::string> said;
  std::mutex writing;
  parallel::launch_settings threads;
  threads.thread_ranks = ranks;
  threads.deadline = std::chrono::seconds(20);
  parallel::launch(threads, [&](parallel::any_communicator& all) {
    parallel::world world(all, how);
    cpu device(1);
    const train::trainable_model<cpu> model(device, small_model(family), {}, &world);
    const std::lock_guard lock(writing);
    said.insert(train::parameters_text(model));
  });
  return said;
}

// By hand, for each of two layers: queries and outputs 32 x 32, keys and values 16 x 32, norms of 32 and of 8 twice
// each; 10,240 of the embedding and 32 of the last norm. The feed-forward has three matrices of 48 x 32; the mixture
// has 128 of the router and four experts of three matrices of 24 x 32.
TEST(parameters_text, tensor_parallel) {
  using texts_of = std::set<std::string>;
  // 10240 + 32 + 2 (3072 + 64 + 16 + 4608) = 25792
  EXPECT_EQ(texts(nn::family::qwen3, 1, {}), texts_of{"0.0258 M parameters"});
  parallel::parallel_settings tensor;
  tensor.tensor = 2, tensor.zero = 0;
  // 5120 + 32 + 2 (1536 + 64 + 16 + 2304) = 12992
  EXPECT_EQ(texts(nn::family::qwen3, 2, tensor), texts_of{"0.0258 M parameters, 0.013 M of them on this rank"});
  parallel::parallel_settings shards;
  shards.zero = 3;
  EXPECT_EQ(texts(nn::family::qwen3, 2, shards), texts_of{"0.0258 M parameters"});
}

TEST(parameters_text, expert_parallel) {
  using texts_of = std::set<std::string>;
  // 10240 + 32 + 2 (3072 + 64 + 16 + 128 + 4 x 2304) = 35264
  EXPECT_EQ(texts(nn::family::qwen3_moe, 1, {}), texts_of{"0.0353 M parameters"});
  parallel::parallel_settings experts;
  experts.expert = 2, experts.zero = 1;
  // 9216 fewer
  EXPECT_EQ(texts(nn::family::qwen3_moe, 2, experts), texts_of{"0.0353 M parameters, 0.026 M of them on this rank"});
}

}  // namespace
}  // namespace RLCORE_TEST_ID
