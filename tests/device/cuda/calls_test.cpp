// How many kernels, transfers and waits a decode step and a pass of training take on a cuda device: the table of
// docs/cuda.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/decode.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/rollout/sampler.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config model_of(std::int64_t layers) {
  nn::config c;
  c.vocab_size = 100;
  c.hidden_size = 32;
  c.intermediate_size = 48;
  c.num_hidden_layers = layers;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  return c;
}

/// What a second call of `what` asks the driver for.
template <class F>
nvidia::emulated_calls calls_of(F what) {
  what();
  const nvidia::emulated_calls before = nvidia::calls_of_emulator();
  what();
  const nvidia::emulated_calls after = nvidia::calls_of_emulator();
  return {after.launches - before.launches, after.uploads - before.uploads, after.downloads - before.downloads,
          after.waits - before.waits};
}

/// One token of each of three sequences, drawn and scored.
nvidia::emulated_calls decode_step(std::int64_t layers) {
  any_device_of<emulated_cuda> device;
  nn::causal_lm<any_device> model(device, model_of(layers));
  model.initialize(1);
  nn::workspace<any_device> space(device);
  nn::kv_cache<any_device> cache(device, model.settings(), 3);
  buffer<float, any_device> logits(device, 300);
  rollout::sampler<any_device> draw;
  std::int64_t position = 0;
  return calls_of([&] {
    const std::vector<std::int32_t> ids{4, 5, 6}, pages{0, 1, 2};
    std::vector<nn::decode_chunk> chunks;
    for (std::size_t i = 0; i < 3; ++i)
      chunks.push_back({std::span(ids).subspan(i, 1), position, std::span(pages).subspan(i, 1), true});
    ++position;
    nn::decode(model, space, cache, chunks, logits.data());
    const std::vector<double> uniform(3, 0.5);
    std::vector<std::int32_t> tokens(3);
    std::vector<float> logp(3), entropy(3);
    draw(device, {}, nn::vocabulary_chunks::of(model.settings(), {}), logits.data(), 100, uniform, tokens, logp,
         entropy);
  });
}

/// Forward and back over two sequences of 20 tokens.
nvidia::emulated_calls training_pass(std::int64_t layers) {
  any_device_of<emulated_cuda> device;
  nn::causal_lm<any_device> model(device, model_of(layers));
  model.initialize(1);
  nn::workspace<any_device> space(device);
  nn::gradients<any_device> gradients(model);
  nn::targets targets;
  ragged<std::int32_t> sequences;
  for (int s = 0; s < 2; ++s) {
    std::vector<std::int32_t> ids;
    for (std::int32_t t = 0; t < 20; ++t) ids.push_back(t + s);
    sequences.push_back(ids);
    for (std::int32_t t = 0; t < 19; ++t) {
      targets.row.push_back(s * 20 + t);
      targets.token.push_back(t + 1);
    }
  }
  return calls_of([&] {
    nn::forward_backward(model, space, gradients, sequences, targets, 1.0f, false,
                         [](auto logp, auto, auto dlogp, auto) { std::ranges::copy(logp, dlogp.begin()); });
  });
}

/// "| a decode step | 30 + 13 a layer | 0 | 1 | 1 |"
std::string row_of(const std::string& what, nvidia::emulated_calls (*count)(std::int64_t layers)) {
  const nvidia::emulated_calls two = count(2), three = count(3);
  EXPECT_EQ(two.uploads, three.uploads) << what;
  EXPECT_EQ(two.downloads, three.downloads) << what;
  EXPECT_EQ(two.waits, three.waits) << what;
  const std::uint64_t layer = three.launches - two.launches;
  return "| " + what + " | " + std::to_string(two.launches - 2 * layer) + " + " + std::to_string(layer) +
         " a layer | " + std::to_string(two.uploads) + " | " + std::to_string(two.downloads) + " | " +
         std::to_string(two.waits) + " |\n";
}

TEST(cuda_calls, are_those_of_the_page) {
  std::ifstream in(std::string(RLCORE_SOURCE_DIR) + "/docs/cuda.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  for (const std::string& row : {row_of("one token of each of 3 sequences, drawn and scored", decode_step),
                                 row_of("forward and back over 2 sequences of 20 tokens", training_pass)})
    EXPECT_NE(page.find("\n" + row), page.npos) << row;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
