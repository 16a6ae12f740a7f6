#include "rlcore/rollout/engine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/log_probs.hpp"

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
  explicit fixture(int threads = 1) : device(threads), model(device, tiny()), space(device) { model.initialize(11); }
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
  return {.how = {.temperature = 0.8f}, .max_new_tokens = 12, .eos_ids = {4, 9, 30}, .max_sequences = 64};
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

TEST(engine, recorded_log_probs_and_entropies_are_the_bits_that_training_computes) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  const auto answers = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
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
  nn::log_probs(f.model, f.space, sequences, targets, 0.8f, logp, entropy);
  EXPECT_EQ(recorded, logp);
  EXPECT_EQ(recorded_entropy, entropy);
}

TEST(engine, text_does_not_depend_on_slots_chunks_company_or_threads) {
  fixture f;
  const auto p = prompts();
  const auto asked = requests(p, 3);
  const auto whole = rollout::generate(f.model, f.space, asked, settings(), random_key{5}, quiet);
  for (const auto& [slots, tokens] : {std::pair{1, 2048}, std::pair{2, 5}, std::pair{5, 17}, std::pair{64, 40}}) {
    rollout::generation how = settings();
    how.max_sequences = slots, how.max_batched_tokens = tokens;
    expect_same(whole, rollout::generate(f.model, f.space, asked, how, random_key{5}, quiet));
  }
  rollout::generation small = settings();
  small.max_cache_bytes = 1;  // room for one sequence
  expect_same(whole, rollout::generate(f.model, f.space, asked, small, random_key{5}, quiet));
  fixture two(2);
  expect_same(whole, rollout::generate(two.model, two.space, asked, settings(), random_key{5}, quiet));

  auto reversed = asked;
  std::reverse(reversed.begin(), reversed.end());
  auto answers = rollout::generate(f.model, f.space, reversed, settings(), random_key{5}, quiet);
  std::reverse(answers.begin(), answers.end());
  expect_same(whole, answers);
}

TEST(engine, greedy_takes_the_largest_logit_of_a_full_forward_pass) {
  fixture f;
  const auto p = prompts();
  rollout::generation how = settings();
  how.how = {.temperature = 0};
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
