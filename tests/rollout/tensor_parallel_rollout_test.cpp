// Generation by tensor parallel ranks that are threads: the serial model's text, log-probs and entropies in every rank,
// which are those that training computes.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/parallel/communicator/threads.hpp"
#include "rlcore/rollout/engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config small_model(nn::family family, std::int64_t tp_reduce_chunks) {
  nn::config c;
  c.model = family;
  c.vocab_size = 301, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 16, c.num_key_value_heads = 8, c.head_dim = 4, c.max_position_embeddings = 128;
  c.tie_word_embeddings = c.attention_bias = family == nn::family::qwen2;
  c.initializer_range = 0.3;
  c.tp_reduce_chunks = tp_reduce_chunks;
  if (family == nn::family::qwen3_moe)  // which two and four ranks divide; eight have all
    c.num_experts = 6, c.num_experts_per_tok = 2, c.moe_intermediate_size = 24;
  return c;
}

struct generated {
  std::vector<rollout::response> responses;
  std::vector<float> logp, entropy;      ///< as training computes them
  std::vector<std::int32_t> favourites;  ///< the most likely next token at every row

  std::vector<std::vector<std::int32_t>> tokens() const {
    std::vector<std::vector<std::int32_t>> all;
    for (const rollout::response& r : responses) all.push_back(r.tokens);
    return all;
  }
  std::vector<float> recorded() const {
    std::vector<float> all;
    for (const rollout::response& r : responses) all.insert(all.end(), r.logp.begin(), r.logp.end());
    for (const rollout::response& r : responses) all.insert(all.end(), r.entropy.begin(), r.entropy.end());
    return all;
  }
  std::vector<float> trained() const {
    std::vector<float> all = logp;
    all.insert(all.end(), entropy.begin(), entropy.end());
    return all;
  }
};

/// On the device that programs use, whose memory is not the host's.
generated generate_as(const nn::config& c, const nn::partition& part, nn::tensor_group* group,
                      const rollout::sampling& how) {
  any_device_of<cpu> device(1);
  nn::causal_lm<any_device> model(device, c, part);
  model.initialize(11);
  model.set_tensor_group(group);
  nn::workspace<any_device> space(device);
  std::vector<std::vector<std::int32_t>> prompts;
  std::vector<tiny_vision::prompt> shown;  // with their images, of a model that reads some
  if (c.vision) shown = tiny_vision::prompts(5);
  std::vector<rollout::request> requests;
  for (std::uint32_t i = 0; i < 5; ++i) {
    prompts.emplace_back();
    for (std::uint32_t t = 0; t < 2 + 9 * i; ++t)
      prompts.back().push_back(static_cast<std::int32_t>(random_key{3}.below(301, i, t)));
    if (c.vision) prompts.back() = shown[i].tokens;
  }
  for (std::uint32_t i = 0; i < 5; ++i)
    for (std::uint32_t k = 0; k < 2; ++k) {
      requests.push_back({prompts[i], i, k});
      if (c.vision) requests.back().images = shown[i].images;
    }
  rollout::generation s;
  s.sampling = how;
  s.max_new_tokens = 9, s.max_sequences = 6, s.max_batched_tokens = 32, s.eos_ids = {4, 9, 30};
  rollout::engine<any_device> engine;
  generated g;
  g.responses = engine.generate(model, space, requests, s, random_key{5}, [](std::size_t) {});

  ragged<std::int32_t> sequences;
  ragged<nn::image_patches> images;
  nn::targets targets;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<std::int32_t> row(requests[i].prompt.begin(), requests[i].prompt.end());
    const auto start = static_cast<std::int32_t>(sequences.size());
    for (const std::int32_t token : g.responses[i].tokens) {
      targets.row.push_back(start + static_cast<std::int32_t>(row.size()) - 1);
      targets.token.push_back(token);
      row.push_back(token);
    }
    sequences.push_back(row), images.push_back(requests[i].images);
  }
  const nn::input input(sequences, images);
  g.logp.resize(targets.row.size()), g.entropy.resize(g.logp.size()), g.favourites.resize(g.logp.size());
  nn::log_probs(model, space, input, targets, how.greedy() ? 1 : how.temperature, g.logp, g.entropy);
  nn::most_likely(model, space, input, targets.row, g.favourites);
  return g;
}

std::vector<generated> generate_on_ranks(const nn::config& c, int ranks, const rollout::sampling& how) {
  std::vector<generated> all(static_cast<std::size_t>(ranks));
  parallel::run_ranks(
      ranks,
      [&](parallel::thread_rank& self) {
        nn::tensor_group_of<parallel::thread_rank> group(self);
        all[static_cast<std::size_t>(self.rank())] =
            generate_as(c, nn::sampling_part(c, self.rank(), ranks), &group, how);
      },
      std::chrono::seconds(20));
  return all;
}

class tensor_parallel_rollout : public testing::TestWithParam<nn::family> {};

TEST_P(tensor_parallel_rollout, has_the_text_and_the_bits_of_the_serial_model_in_every_rank) {
  const nn::config c = small_model(GetParam(), 8);
  for (const rollout::sampling& how : {rollout::sampling{0.8f}, {0.9f, 20, 0.8f}, {0}}) {
    const generated serial = generate_as(c, {}, nullptr, how);
    EXPECT_EQ(serial.recorded(), serial.trained());
    for (const int ranks : {2, 4, 8})
      for (const generated& g : generate_on_ranks(c, ranks, how)) {
        EXPECT_EQ(g.tokens(), serial.tokens());
        EXPECT_EQ(g.recorded(), serial.recorded());
        EXPECT_EQ(g.trained(), serial.trained());
        EXPECT_EQ(g.favourites, serial.favourites);
      }
  }
}

/// Ranks with the same key heads: eight on two.
TEST_P(tensor_parallel_rollout, of_more_ranks_than_key_heads_has_the_same_bits) {
  nn::config c = small_model(GetParam(), 8);
  c.num_key_value_heads = 2;
  for (const rollout::sampling& how : {rollout::sampling{0.8f}, {0}}) {
    const generated serial = generate_as(c, {}, nullptr, how);
    for (const int ranks : {4, 8})
      for (const generated& g : generate_on_ranks(c, ranks, how)) {
        EXPECT_EQ(g.tokens(), serial.tokens());
        EXPECT_EQ(g.recorded(), serial.recorded());
        EXPECT_EQ(g.trained(), serial.trained());
        EXPECT_EQ(g.favourites, serial.favourites);
      }
  }
}

TEST_P(tensor_parallel_rollout, without_row_chunks_ranks_agree_and_record_what_training_computes) {
  const nn::config c = small_model(GetParam(), 0);
  const std::vector<generated> all = generate_on_ranks(c, 4, {0.8f});
  for (const generated& g : all) {
    EXPECT_EQ(g.tokens(), all[0].tokens());
    EXPECT_EQ(g.recorded(), all[0].recorded());
    EXPECT_EQ(g.recorded(), g.trained());
  }
}

TEST(tensor_parallel_images, reads_images_on_every_rank) {
  nn::config c = tiny_vision::config();
  c.tp_reduce_chunks = 2;
  const generated serial = generate_as(c, {}, nullptr, {0.9f});
  EXPECT_EQ(serial.recorded(), serial.trained());
  for (const generated& g : generate_on_ranks(c, 2, {0.9f})) {
    EXPECT_EQ(g.tokens(), serial.tokens());
    EXPECT_EQ(g.recorded(), serial.recorded());
    EXPECT_EQ(g.trained(), serial.trained());
    EXPECT_EQ(g.favourites, serial.favourites);
  }
}

INSTANTIATE_TEST_SUITE_P(families, tensor_parallel_rollout,
                         testing::Values(nn::family::qwen2, nn::family::qwen3, nn::family::qwen3_moe));

}  // namespace
}  // namespace RLCORE_TEST_ID
