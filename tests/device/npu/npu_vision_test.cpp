// A model with a vision tower on the npu device against the cpu: scoring, training, generation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "device/npu/emulated_npu.hpp"
#include "nn/tiny_vision.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"

namespace rlcore_test::RLCORE_TEST_ID {
namespace {

/// Rows with none, one and three images; words are the targets.
struct rows {
  std::vector<tiny_vision::prompt> prompts = tiny_vision::prompts(3);
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> images;
  nn::targets targets;

  rows() {
    for (const tiny_vision::prompt& p : prompts) {
      for (std::size_t t = 1; t < p.tokens.size(); ++t) {
        if (p.tokens[t] == tiny_vision::image) continue;
        targets.row.push_back(static_cast<std::int32_t>(tokens.size() + t - 1));
        targets.token.push_back(p.tokens[t]);
      }
      tokens.push_back(p.tokens), images.push_back(p.images);
    }
  }
};

struct results {
  floats logp, entropy, gradients, recorded, trained;
};

template <class D>
results run(D& device) {
  nn::config c = tiny_vision::config();
  c.initializer_range = 0.2;
  nn::causal_lm<D> model(device, c);
  model.initialize(11);
  nn::workspace<D> space(device);
  nn::gradients<D> gradients(model);
  const rows r;
  results out;
  out.logp.resize(r.targets.row.size()), out.entropy.resize(out.logp.size());
  nn::log_probs(model, space, {r.tokens, r.images}, r.targets, 0.8f, out.logp, out.entropy);
  nn::forward_backward(model, space, gradients, nn::input(r.tokens, r.images), r.targets, 0.8f, true,
                       [](auto logp, auto, auto dlogp, auto dentropy) {
                         for (std::size_t i = 0; i < logp.size(); ++i)
                           dlogp[i] = static_cast<float>(i * 5 % 7) - 3, dentropy[i] = static_cast<float>(i % 3) / 4;
                       });
  out.gradients.resize(gradients.size());
  device.download(out.gradients.data(), gradients.data(), out.gradients.size() * sizeof(float));

  std::vector<rollout::request> asked;
  for (std::uint32_t i = 0; i < 6; ++i)
    asked.push_back({r.prompts[i / 2].tokens, i / 2, i % 2, r.prompts[i / 2].images});
  rollout::generation how;
  how.max_new_tokens = 12, how.max_sequences = 4, how.max_batched_tokens = 20;
  const auto answers = rollout::generate(model, space, asked, how, random_key{9}, [](std::size_t) {});
  ragged<std::int32_t> tokens;
  ragged<nn::image_patches> images;
  nn::targets targets;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::vector<std::int32_t> row(asked[i].prompt.begin(), asked[i].prompt.end());
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t) {
      targets.row.push_back(static_cast<std::int32_t>(tokens.size() + row.size()) - 1);
      targets.token.push_back(answers[i].tokens[t]);
      row.push_back(answers[i].tokens[t]);
      out.recorded.push_back(answers[i].logp[t]);
      EXPECT_NE(answers[i].tokens[t], tiny_vision::image);
    }
    tokens.push_back(row), images.push_back(asked[i].images);
  }
  out.trained.resize(out.recorded.size());
  nn::log_probs(model, space, {tokens, images}, targets, 1.0f, out.trained, {});
  return out;
}

double furthest(const floats& a, const floats& b) {
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

/// Every kernel in float: what differs is the order of sums.
TEST(npu_vision, in_float_scores_gradients_and_generation_are_those_of_the_cpu) {
  emulated_npu on(compute::float32);
  cpu host(1);
  const results got = run(*on), wanted = run(host);
  EXPECT_LE(furthest(got.logp, wanted.logp), 3e-5);
  EXPECT_LE(furthest(got.entropy, wanted.entropy), 3e-5);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
    difference += std::pow(static_cast<double>(got.gradients[i]) - static_cast<double>(wanted.gradients[i]), 2);
    size += std::pow(static_cast<double>(wanted.gradients[i]), 2);
  }
  EXPECT_LE(std::sqrt(difference / size), 1e-5);
  ASSERT_EQ(got.recorded.size(), got.trained.size());
  EXPECT_LE(furthest(got.recorded, got.trained), 3e-5);
  EXPECT_EQ(wanted.recorded, wanted.trained);
}

}  // namespace
}  // namespace rlcore_test::RLCORE_TEST_ID
