// Generation from prompts with images: the bits of training whatever the limits, rows that samples share, refusals.
#include "rlcore/rollout/prompt_images.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nn/tiny_vision.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using tiny_vision::prompt;
using responses = std::vector<rollout::response>;
using requests = std::vector<rollout::request>;

struct fixture {
  explicit fixture(int threads = 1, nn::config c = tiny_vision::config(), compute type = compute::float32)
      : device(threads, {}, type), model(device, std::move(c)), space(device) {
    model.initialize(11);
  }
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
};

requests ask(const std::vector<prompt>& prompts, std::uint32_t samples) {
  requests all;
  for (std::uint32_t i = 0; i < prompts.size(); ++i)
    for (std::uint32_t k = 0; k < samples; ++k) all.push_back({prompts[i].tokens, i, k, prompts[i].images});
  return all;
}

rollout::generation settings() {
  return {.sampling = {.temperature = 1.2f}, .max_new_tokens = 14, .eos_ids = {4, 9}, .max_sequences = 64};
}

const auto quiet = [](std::size_t) {};

void expect_same(const responses& a, const responses& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << where << ", response " << i;
    EXPECT_EQ(a[i].logp, b[i].logp) << where << ", response " << i;
    EXPECT_EQ(a[i].entropy, b[i].entropy) << where << ", response " << i;
  }
}

void expect_bits_of_training(fixture& f, const requests& asked, const responses& answers, float temperature) {
  ragged<std::int32_t> sequences;
  ragged<nn::image_patches> images;
  nn::targets targets;
  std::vector<float> recorded, recorded_entropy;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<std::int32_t> row(asked[i].prompt.begin(), asked[i].prompt.end());
    const auto begin = static_cast<std::int32_t>(sequences.size());
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t) {
      targets.row.push_back(begin + static_cast<std::int32_t>(row.size()) - 1);
      targets.token.push_back(answers[i].tokens[t]);
      row.push_back(answers[i].tokens[t]);
      recorded.push_back(answers[i].logp[t]), recorded_entropy.push_back(answers[i].entropy[t]);
    }
    sequences.push_back(row);
    images.push_back(asked[i].images);
  }
  std::vector<float> logp(recorded.size()), entropy(recorded.size());
  nn::log_probs(f.model, f.space, {sequences, images}, targets, temperature, logp, entropy);
  EXPECT_EQ(logp, recorded);
  EXPECT_EQ(entropy, recorded_entropy);
}

TEST(prompt_images, recorded_log_probs_and_entropies_are_the_bits_that_training_computes) {
  const std::vector<prompt> prompts = tiny_vision::prompts(6);
  const requests asked = ask(prompts, 3);
  for (const auto& [threads, type] : {std::pair{1, compute::float32}, {2, compute::float32}, {2, compute::bfloat16}}) {
    fixture f(threads, tiny_vision::config(), type);
    for (const rollout::sampling& how : {rollout::sampling{1.2f}, {3, 50}, {0.9f, -1, 0.8f}, {0}}) {
      rollout::generation s = settings();
      s.sampling = how;
      const responses answers = rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet);
      expect_bits_of_training(f, asked, answers, how.greedy() ? 1 : how.temperature);
    }
  }
}

TEST(prompt_images, text_depends_on_no_limit_and_the_tower_reads_a_prompt_once) {
  fixture f;
  const std::vector<prompt> prompts = tiny_vision::prompts(6);
  const requests asked = ask(prompts, 3);
  rollout::engine<cpu> engine;
  const responses expected = engine.generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  EXPECT_EQ(engine.usage().images_read, 2u * 4);  // two prompts with one, two with three
  expect_bits_of_training(f, asked, expected, 1.2f);

  const std::size_t page = nn::kv_cache<cpu>::page_bytes(f.model.device(), f.model.settings());
  std::size_t preemptions = 0;
  for (const std::int64_t pass : {1, 5, 33, 64, 2048})
    for (const std::int64_t sequences : {1, 4, 64})
      for (const bool share : {true, false})
        for (const bool tight : {true, false}) {
          rollout::generation s = settings();
          s.max_batched_tokens = pass, s.max_sequences = sequences, s.share_prompts = share;
          s.chunk_prompts = pass != 33;
          rollout::engine<cpu> once;
          if (tight) {  // pages for two or three sequences, and the rows of images
            const std::int64_t rows = std::min<std::int64_t>(2 * (35 + 9), pass + 3 * 35);
            s.max_cache_bytes = 4 * page + static_cast<std::size_t>(rows * 32) * sizeof(float);
          }
          const std::string where = std::to_string(pass) + " tokens, " + std::to_string(sequences) + " sequences" +
                                    (share ? ", shared" : "") + (tight ? ", tight" : "");
          expect_same(once.generate(f.model, f.space, asked, s, random_key{5}, quiet), expected, where);
          EXPECT_LE(once.cache_bytes(), s.max_cache_bytes) << where;
          EXPECT_TRUE(once.usage().preemptions > 0 || once.usage().images_read == 8) << where;
          preemptions += once.usage().preemptions;
        }
  EXPECT_GT(preemptions, 0u);
}

TEST(prompt_images, a_sequence_that_gave_its_pages_back_finds_the_rows_or_has_them_made_again) {
  fixture f;
  const std::vector<prompt> prompts = tiny_vision::prompts(6);
  const requests asked = ask(prompts, 1);
  rollout::generation s = settings();
  s.max_new_tokens = 60, s.eos_ids = {};
  rollout::engine<cpu> engine;
  const responses expected = engine.generate(f.model, f.space, asked, s, random_key{5}, quiet);
  EXPECT_EQ(engine.usage().images_read, 8u);
  s.max_cache_bytes = 4 * nn::kv_cache<cpu>::page_bytes(f.model.device(), f.model.settings()) + 88 * 32 * sizeof(float);
  rollout::engine<cpu> small;
  expect_same(small.generate(f.model, f.space, asked, s, random_key{5}, quiet), expected, "few pages");
  EXPECT_LE(small.cache_bytes(), s.max_cache_bytes);
  EXPECT_GT(small.usage().preemptions, 0u);
  EXPECT_GT(small.usage().images_read, 8u);
}

TEST(prompt_images, the_tower_reads_weights_of_the_format_of_the_call) {
  fixture f;
  const std::vector<prompt> prompts = tiny_vision::prompts(3);
  const requests asked = ask(prompts, 2);
  rollout::generation s = settings();
  const responses trained = rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet);
  s.weights = weight_format::int8;
  const responses expected = rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet);
  EXPECT_NE(expected[2].logp[0], trained[2].logp[0]);
  s.max_batched_tokens = 7, s.max_sequences = 3;
  expect_same(rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet), expected, "int8");
}

TEST(prompt_images, memory_of_an_earlier_call_is_in_nobodys_way) {
  fixture f;
  const std::vector<prompt> prompts = tiny_vision::prompts(6), words = tiny_vision::prompts(1);
  rollout::engine<cpu> engine;
  engine.generate(f.model, f.space, ask(prompts, 2), settings(), random_key{5}, quiet);
  const requests asked = ask(words, 3);
  const responses expected = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  rollout::generation s = settings();
  s.max_cache_bytes = nn::kv_cache<cpu>::page_bytes(f.model.device(), f.model.settings());  // one page is enough
  expect_same(engine.generate(f.model, f.space, asked, s, random_key{5}, quiet), expected, "one page");
  EXPECT_LE(engine.cache_bytes(), s.max_cache_bytes);
}

TEST(prompt_images, a_prompt_may_begin_and_end_with_an_image) {
  fixture f;
  std::vector<prompt> prompts;
  prompts.emplace_back(1, std::initializer_list<nn::patch_grid>{{4, 6}, {8, 8}});
  std::vector<std::int32_t>& tokens = prompts[0].tokens;
  const auto image = [](std::int32_t token) { return token == tiny_vision::image; };
  tokens.erase(std::find_if(tokens.rbegin(), tokens.rend(), image).base(), tokens.end());
  tokens.erase(tokens.begin(), std::ranges::find_if(tokens, image));
  const requests asked = ask(prompts, 5);
  const responses expected = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  expect_bits_of_training(f, asked, expected, 1.2f);
  for (const std::int64_t pass : {1, 7, 64})
    for (const std::int64_t sequences : {1, 2, 5}) {
      rollout::generation s = settings();
      s.max_batched_tokens = pass, s.max_sequences = sequences;
      rollout::engine<cpu> engine;
      expect_same(engine.generate(f.model, f.space, asked, s, random_key{5}, quiet), expected, "ends with an image");
      EXPECT_EQ(engine.usage().images_read, 2u);
    }
}

TEST(prompt_images, rows_are_those_of_the_weights_of_the_call) {
  fixture f;
  const std::vector<prompt> prompts = tiny_vision::prompts(3);
  const requests asked = ask(prompts, 2);
  rollout::engine<cpu> engine;
  const responses before = engine.generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  const auto [first, last] = f.model.tower_range();
  for (std::size_t i = first; i < last; ++i) f.model.weights().data()[i] *= 0.9f;
  const responses after = engine.generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  EXPECT_EQ(after[0].logp, before[0].logp);  // no image
  EXPECT_NE(after[2].logp, before[2].logp);
  expect_bits_of_training(f, asked, after, 1.2f);
}

TEST(prompt_images, samples_are_those_of_separate_requests) {
  fixture f(2);
  const std::vector<prompt> prompts = tiny_vision::prompts(3);
  const requests asked = ask(prompts, 4);
  const responses together = rollout::generate(f.model, f.space, asked, settings(), random_key{6}, quiet);
  for (std::size_t i = 0; i < asked.size(); ++i)
    expect_same(rollout::generate(f.model, f.space, std::span(asked).subspan(i, 1), settings(), random_key{6}, quiet),
                {together[i]}, "alone");
}

TEST(prompt_images, equal_tokens_with_other_images_are_another_prompt) {
  fixture f;
  std::vector<prompt> prompts;
  prompts.emplace_back(1, std::initializer_list<nn::patch_grid>{{4, 6}}, 1);
  prompts.emplace_back(1, std::initializer_list<nn::patch_grid>{{4, 6}}, 2);  // other floats
  prompts.emplace_back(1, std::initializer_list<nn::patch_grid>{{6, 4}}, 2);  // another grid
  prompts.emplace_back(1, std::initializer_list<nn::patch_grid>{{6, 4}}, 2);  // the same, somewhere else
  EXPECT_EQ(prompts[0].tokens, prompts[2].tokens);
  requests asked = ask(prompts, 2);
  for (rollout::request& r : asked) r.prompt_number = 0;  // the same random numbers
  EXPECT_FALSE(rollout::same_prompt(asked[0], asked[2]));
  EXPECT_FALSE(rollout::same_prompt(asked[2], asked[4]));
  EXPECT_TRUE(rollout::same_prompt(asked[0], asked[1]));
  EXPECT_TRUE(rollout::same_prompt(asked[4], asked[6]));
  rollout::engine<cpu> engine;
  const responses answers = engine.generate(f.model, f.space, asked, settings(), random_key{7}, quiet);
  EXPECT_EQ(engine.usage().images_read, 3u);
  expect_bits_of_training(f, asked, answers, 1.2f);
  EXPECT_NE(answers[0].logp, answers[2].logp);
  EXPECT_NE(answers[2].logp, answers[4].logp);
  EXPECT_EQ(answers[4].logp, answers[6].logp);
}

TEST(prompt_images, image_and_video_tokens_are_never_drawn) {
  fixture f;
  for (const nn::parameter& p : f.model.parameters())
    if (p.name == "model.embed_tokens.weight")  // tied: large logits of either sign
      for (const std::int32_t id : {tiny_vision::image, tiny_vision::video})
        for (std::size_t i = 0; i < 32; ++i)
          f.model.weights().data()[p.offset + static_cast<std::size_t>(id) * 32 + i] *= 100;
  const std::vector<prompt> prompts = tiny_vision::prompts(3);
  const requests asked = ask(prompts, 8);
  const std::vector<std::int32_t> never = f.model.settings().never_sampled();
  EXPECT_EQ(never, (std::vector<std::int32_t>{57, 56}));
  for (const float temperature : {0.0f, 1.0f, 50.0f}) {
    rollout::generation s = settings();
    s.sampling.temperature = temperature;
    for (const rollout::response& r : rollout::generate(f.model, f.space, asked, s, random_key{8}, quiet))
      for (const std::int32_t token : r.tokens) EXPECT_EQ(std::ranges::find(never, token), never.end());
  }
}

TEST(prompt_images, what_does_not_fit_is_refused_with_the_number_of_the_request) {
  const std::vector<prompt> prompts = tiny_vision::prompts(3);
  const auto refusal = [](fixture& f, const requests& asked, const rollout::generation& s = settings()) {
    try {
      rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet);
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  fixture f;
  requests asked = ask(prompts, 1);
  EXPECT_EQ(refusal(f, asked), "");
  asked[1].images = {};
  EXPECT_THAT(refusal(f, asked), testing::HasSubstr("(generate: request 1)"));
  asked[1].images = prompts[2].images;
  EXPECT_THAT(refusal(f, asked), testing::HasSubstr("(generate: request 1)"));
  asked = ask(prompts, 1);
  rollout::generation s = settings();
  s.max_cache_bytes = nn::kv_cache<cpu>::page_bytes(f.model.device(), f.model.settings());
  EXPECT_THAT(refusal(f, asked, s), testing::HasSubstr("bytes of images"));

  nn::config words = tiny_vision::config();
  words.vision.reset();
  fixture blind(1, words);
  EXPECT_THAT(refusal(blind, asked), testing::HasSubstr("request 1 has images, and the model reads none"));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
