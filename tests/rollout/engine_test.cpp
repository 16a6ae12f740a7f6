#include "rlcore/rollout/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "support/counted_device.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;

nn::config tiny() {
  nn::config c;
  c.vocab_size = 50, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 128;
  c.initializer_range = 0.3;  // far from uniform, so that a wrong position or slot shows
  return c;
}

struct fixture {
  explicit fixture(int threads = 1, compute type = compute::float32)
      : device(threads, {}, type), model(device, tiny()), space(device) {
    model.initialize(11);
  }
  cpu device;
  nn::causal_lm<cpu> model;
  nn::workspace<cpu> space;
};

std::vector<std::vector<std::int32_t>> prompts() {
  std::vector<std::vector<std::int32_t>> all;
  for (std::uint32_t i = 0; i < 7; ++i) {
    std::vector<std::int32_t> p;
    for (std::uint32_t t = 0; t < 2 + 5 * i; ++t) p.push_back(static_cast<std::int32_t>(random_key{3}.below(50, i, t)));
    all.push_back(p);
  }
  return all;
}

std::vector<rollout::request> requests(const std::vector<std::vector<std::int32_t>>& p, std::uint32_t samples) {
  std::vector<rollout::request> all;
  for (std::uint32_t i = 0; i < p.size(); ++i)
    for (std::uint32_t k = 0; k < samples; ++k) all.push_back({p[i], i, k});
  return all;
}

rollout::generation settings() {
  return {.sampling = {.temperature = 0.8f}, .max_new_tokens = 12, .eos_ids = {4, 9, 30}, .max_sequences = 64};
}

const auto quiet = [](std::size_t) {};

void expect_same(const std::vector<rollout::response>& a, const std::vector<rollout::response>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << "response " << i;
    EXPECT_EQ(a[i].logp, b[i].logp) << "response " << i;
    EXPECT_EQ(a[i].entropy, b[i].entropy) << "response " << i;
    EXPECT_EQ(a[i].reason, b[i].reason) << "response " << i;
  }
}

/// Log-probs of the answers' tokens as training computes them, and as recorded; entropies follow.
std::pair<std::vector<float>, std::vector<float>> log_probs_of_training(fixture& f,
                                                                        const std::vector<rollout::request>& asked,
                                                                        const std::vector<rollout::response>& answers,
                                                                        float temperature) {
  ragged<std::int32_t> sequences;
  nn::targets targets;
  std::vector<float> recorded, recorded_entropy;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::vector<std::int32_t> row(asked[i].prompt.begin(), asked[i].prompt.end());
    const auto start = static_cast<std::int32_t>(sequences.size());
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t) {
      targets.row.push_back(start + static_cast<std::int32_t>(row.size()) - 1);
      targets.token.push_back(answers[i].tokens[t]);
      row.push_back(answers[i].tokens[t]);
      recorded.push_back(answers[i].logp[t]);
      recorded_entropy.push_back(answers[i].entropy[t]);
    }
    sequences.push_back(row);
  }
  std::vector<float> logp(recorded.size()), entropy(recorded.size());
  nn::log_probs(f.model, f.space, sequences, targets, temperature, logp, entropy);
  logp.insert(logp.end(), entropy.begin(), entropy.end());
  recorded.insert(recorded.end(), recorded_entropy.begin(), recorded_entropy.end());
  return {logp, recorded};
}

void expect_bits_of_training(fixture& f, const std::vector<rollout::request>& asked,
                             const std::vector<rollout::response>& answers, float temperature) {
  const auto [trained, recorded] = log_probs_of_training(f, asked, answers, temperature);
  EXPECT_EQ(trained, recorded);
}

TEST(engine, recorded_log_probs_and_entropies_are_the_bits_that_training_computes) {
  for (const auto& [threads, type] : {std::pair{1, compute::float32}, {2, compute::float32}, {2, compute::bfloat16}}) {
    fixture f(threads, type);
    const auto p = prompts();
    const auto asked = requests(p, 3);
    for (const rollout::sampling& how : {rollout::sampling{0.8f}, {1}, {1.3f, 7}, {0.9f, -1, 0.8f}, {0}}) {
      rollout::generation s = settings();
      s.sampling = how;
      const auto answers = rollout::generate(f.model, f.space, asked, s, random_key{5}, quiet);
      expect_bits_of_training(f, asked, answers, how.greedy() ? 1 : how.temperature);
    }
  }
}

/// 7 prompts of 2 to 32 tokens and three longer ones, 3 samples each, up to 40 new tokens.
TEST(engine, text_and_log_probs_depend_on_no_limit) {
  auto p = prompts();
  for (const std::size_t n : {64u, 65u, 80u}) {
    p.emplace_back();
    for (std::uint32_t t = 0; t < n; ++t) p.back().push_back(static_cast<std::int32_t>(random_key{4}.below(50, t)));
  }
  const auto asked = requests(p, 3);
  rollout::generation how = settings();
  how.max_new_tokens = 40;
  how.eos_ids = {9};
  fixture f;
  const auto whole = rollout::generate(f.model, f.space, asked, how, random_key{5}, quiet);
  expect_bits_of_training(f, asked, whole, 0.8f);
  const std::size_t page = nn::kv_cache<cpu>::page_bytes(cpu(1), tiny());
  fixture two(2), rounded(1, compute::bfloat16);
  const auto whole_rounded = rollout::generate(rounded.model, rounded.space, asked, how, random_key{5}, quiet);
  expect_bits_of_training(rounded, asked, whole_rounded, 0.8f);
  std::size_t preempted = 0;
  for (fixture* on : {&f, &two, &rounded}) {
    rollout::engine<cpu> engine;
    for (const std::int64_t sequences : {1, 5, 64})
      for (const std::int64_t tokens : {1, 7, 40, 2048})
        for (const std::size_t pages : {4u, 7u, 1000u})  // 80 + 39 positions fill four
          for (const bool share : {true, false}) {
            if (tokens == 1 && (sequences == 5 || pages == 7)) continue;  // enough of the slowest
            SCOPED_TRACE(testing::Message() << sequences << " sequences, " << tokens << " tokens, " << pages
                                            << " pages, shared: " << share);
            how.max_sequences = sequences, how.max_batched_tokens = tokens, how.max_cache_bytes = pages * page;
            how.share_prompts = share, how.chunk_prompts = tokens != 7;
            expect_same(on == &rounded ? whole_rounded : whole,
                        engine.generate(on->model, on->space, asked, how, random_key{5}, quiet));
            EXPECT_LE(engine.cache_bytes(), how.max_cache_bytes);
            EXPECT_EQ(engine.pages().available(), engine.pages().pages()) << "pages in use after the call";
            preempted += engine.usage().preemptions;
            if (HasFailure()) return;
          }
  }
  EXPECT_GT(preempted, 0u);
}

/// Weights within half a step of max |w| / 127: another model, but near. Greedy, so that both score the same text.
TEST(engine, int8_weights_give_log_probs_near_those_of_training) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 1);
  rollout::generation how = settings();
  how.sampling.temperature = 0;
  how.weights = weight_format::int8;
  rollout::engine<cpu> engine;
  const auto answers = engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
  const auto [trained, recorded] = log_probs_of_training(f, asked, answers, 1.0f);
  double largest = 0, mean = 0;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const double d = std::abs(static_cast<double>(recorded[i]) - static_cast<double>(trained[i]));
    largest = std::max(largest, d);
    mean += d / static_cast<double>(recorded.size());
  }
  EXPECT_GT(largest, 0);
  EXPECT_LT(mean, 0.02);
  expect_same(answers, engine.generate(f.model, f.space, asked, how, random_key{5}, quiet));
}

TEST(engine, text_does_not_depend_on_the_order_of_requests) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  const auto whole = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  auto reversed = asked;
  std::reverse(reversed.begin(), reversed.end());
  auto answers = rollout::generate(f.model, f.space, reversed, settings(), random_key{5}, quiet);
  std::reverse(answers.begin(), answers.end());
  expect_same(whole, answers);
}

TEST(engine, weights_and_shapes_may_change_between_calls) {
  fixture f, g;
  g.model.initialize(12);
  nn::config c = tiny();
  c.num_hidden_layers = 1, c.num_key_value_heads = 4;
  nn::causal_lm<cpu> other(f.device, c);
  other.initialize(1);
  const auto p = prompts();
  const auto asked = requests(p, 2);
  const auto first = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  const auto second = rollout::generate(g.model, g.space, asked, settings(), random_key{5}, quiet);
  const auto third = rollout::generate(other, f.space, asked, settings(), random_key{5}, quiet);
  EXPECT_NE(first[0].logp, second[0].logp);
  rollout::engine<cpu> engine;
  expect_same(first, engine.generate(f.model, f.space, asked, settings(), random_key{5}, quiet));
  expect_same(second, engine.generate(g.model, g.space, asked, settings(), random_key{5}, quiet));
  expect_same(third, engine.generate(other, f.space, asked, settings(), random_key{5}, quiet));
  expect_same(first, engine.generate(f.model, f.space, asked, settings(), random_key{5}, quiet));
  EXPECT_TRUE(engine.generate(f.model, f.space, {}, settings(), random_key{5}, quiet).empty());
}

TEST(engine, limits_hold_and_what_cannot_fit_is_refused) {
  fixture f;
  const auto p = prompts();  // the longest has 32 tokens: with 11 fed new ones two pages
  const auto asked = requests(p, 3);
  const std::size_t page = nn::kv_cache<cpu>::page_bytes(cpu(1), tiny());
  EXPECT_EQ(page, 2u * 2 * 32 * 2 * 8 * sizeof(float));  // layers, keys and values, positions, heads, width
  rollout::engine<cpu> engine;
  rollout::generation how = settings();
  how.max_cache_bytes = 2 * page;
  engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
  EXPECT_EQ(engine.cache_bytes(), 2 * page);
  EXPECT_LE(engine.usage().pages_used, 2);
  how.max_cache_bytes = 5 * page + page / 2;
  engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
  EXPECT_EQ(engine.cache_bytes(), 5 * page);
  how.max_cache_bytes = std::size_t{1} << 40;  // no more than all sequences can use
  engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
  EXPECT_LE(engine.cache_bytes(), 2 * asked.size() * page);
  how.max_cache_bytes = 3 * page;  // a lower limit holds for the memory that is there already
  engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
  EXPECT_EQ(engine.cache_bytes(), 3 * page);
  how.max_cache_bytes = 2 * page - 1;
  try {
    engine.generate(f.model, f.space, asked, how, random_key{5}, quiet);
    ADD_FAILURE() << "accepted";
  } catch (const config_error& e) {
    const std::string text = e.what();
    for (const char* part : {"32 tokens", "12 new ones", "16384 bytes", "16383", "max_cache_bytes",
                             "actor_rollout_ref.rollout.gpu_memory_utilization"})
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
  }
}

TEST(engine, a_call_like_an_earlier_one_allocates_nothing_on_the_device) {
  counted_device counted;
  any_device& device = counted.device;
  nn::causal_lm<any_device> model(device, tiny());
  model.initialize(11);
  nn::workspace<any_device> space(device);
  rollout::engine<any_device> engine;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  rollout::generation how = settings();
  how.max_sequences = 9;
  engine.generate(model, space, asked, how, random_key{5}, quiet);
  engine.generate(model, space, asked, how, random_key{5}, quiet);
  const std::size_t before = counted.memory.allocations;
  engine.generate(model, space, asked, how, random_key{6}, quiet);
  how.max_sequences = 4;
  engine.generate(model, space, std::span(asked).first(10), how, random_key{7}, quiet);
  EXPECT_EQ(counted.memory.allocations, before);
}

TEST(engine, a_device_that_the_host_cannot_read) {
  fixture f;
  any_device_of<cpu> device(1);  // everything has to come back through download()
  nn::causal_lm<any_device> model(device, tiny());
  model.initialize(11);
  nn::workspace<any_device> space(device);
  const auto p = prompts();
  const auto asked = requests(p, 3);
  expect_same(rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet),
              rollout::generate(model, space, asked, settings(), random_key{5}, quiet));
}

TEST(engine, logits_take_no_more_than_the_workspace_allows) {
  fixture f;
  nn::workspace<cpu> narrow(f.device, 3 * 50 * sizeof(float));  // three rows
  const auto p = prompts();
  const auto asked = requests(p, 3);
  expect_same(rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet),
              rollout::generate(f.model, narrow, asked, settings(), random_key{5}, quiet));
}

TEST(engine, broken_weights_are_named) {
  fixture f;
  f.model.weights().data()[f.model.size() - 1] = std::nanf("");
  const auto p = prompts();
  try {
    rollout::generate(f.model, f.space, requests(p, 1), settings(), random_key{5}, quiet);
    ADD_FAILURE() << "accepted";
  } catch (const error& e) {
    EXPECT_NE(std::string(e.what()).find("not finite"), std::string::npos) << e.what();
  }
}

TEST(engine, a_call_that_throws_leaves_no_page_in_use) {
  fixture f;
  const auto p = prompts();
  rollout::engine<cpu> engine;
  EXPECT_THROW(engine.generate(f.model, f.space, requests(p, 3), settings(), random_key{5},
                               [](std::size_t) { throw std::runtime_error("enough"); }),
               std::runtime_error);
  EXPECT_EQ(engine.pages().available(), engine.pages().pages());
}

TEST(engine, greedy_takes_the_largest_logit_of_a_full_forward_pass) {
  fixture f;
  const auto p = prompts();
  rollout::generation how = settings();
  how.sampling = {.temperature = 0};
  const auto answers = rollout::generate(f.model, f.space, requests(p, 1), how, random_key{5}, quiet);
  for (std::size_t i = 0; i < p.size(); ++i) {
    std::vector<std::int32_t> row = p[i];
    for (const std::int32_t chosen : answers[i].tokens) {
      ragged<std::int32_t> sequence;
      sequence.push_back(row);
      nn::targets targets;  // the log-prob of every token after this prefix
      for (std::int32_t v = 0; v < 50; ++v) {
        targets.row.push_back(static_cast<std::int32_t>(row.size()) - 1);
        targets.token.push_back(v);
      }
      std::vector<float> logp(50);
      nn::log_probs(f.model, f.space, sequence, targets, 1, logp, {});
      EXPECT_EQ(chosen, std::max_element(logp.begin(), logp.end()) - logp.begin());
      row.push_back(chosen);
    }
  }
}

TEST(engine, a_sequence_ends_at_any_of_the_eos_ids_or_at_the_limit) {
  fixture f;
  const auto p = prompts();
  const rollout::generation how = settings();
  std::size_t calls = 0, last = 0, ended = 0;
  const auto asked = requests(p, 8);
  const auto answers = rollout::generate(f.model, f.space, asked, how, random_key{5}, [&](std::size_t done) {
    EXPECT_GT(done, last);
    last = done;
    ++calls;
  });
  EXPECT_EQ(last, asked.size());
  EXPECT_GT(calls, 1u);
  std::vector<bool> seen(50);
  for (const rollout::response& a : answers) {
    const auto is_eos = [&](std::int32_t id) {
      return std::find(how.eos_ids.begin(), how.eos_ids.end(), id) != how.eos_ids.end();
    };
    EXPECT_EQ(a.logp.size(), a.tokens.size());
    EXPECT_TRUE(std::none_of(a.tokens.begin(), a.tokens.end() - 1, is_eos));
    if (a.reason == rollout::finish::eos) {
      EXPECT_TRUE(is_eos(a.tokens.back()));
      seen[static_cast<std::size_t>(a.tokens.back())] = true;
      ++ended;
    } else {
      EXPECT_EQ(std::ssize(a.tokens), how.max_new_tokens);
      EXPECT_FALSE(is_eos(a.tokens.back()));
    }
  }
  EXPECT_GT(ended, 0u);
  EXPECT_LT(ended, answers.size());
  EXPECT_GE(seen[4] + seen[9] + seen[30], 2);  // more than one of the ids does end sequences
}

TEST(engine, another_key_gives_another_text) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 1);
  const auto a = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  const auto b = rollout::generate(f.model, f.space, asked, settings(), random_key{6}, quiet);
  EXPECT_NE(a[3].tokens, b[3].tokens);
}

TEST(engine, refuses_an_empty_prompt) {
  fixture f;
  const std::vector<rollout::request> asked{{}};
  EXPECT_THROW(rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet), std::invalid_argument);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
