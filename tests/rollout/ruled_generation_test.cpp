// Generation under rules: greedy text with penalties is that of transformers, and nothing else that holds changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/write_config.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/nn/model/log_probs.hpp"
#include "rlcore/rollout/engine.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using texts = std::vector<std::vector<std::int32_t>>;

nn::config small_vocabulary() {
  nn::config c;
  c.vocab_size = 60, c.hidden_size = 32, c.intermediate_size = 48, c.num_hidden_layers = 2;
  c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 8, c.max_position_embeddings = 128;
  c.initializer_range = 0.3;
  return c;
}

struct ruled_model {
  cpu device{1};
  nn::causal_lm<cpu> model{device, small_vocabulary()};
  nn::workspace<cpu> space{device};
  texts prompts;

  ruled_model() {
    model.initialize(23);
    for (std::uint32_t i = 0; i < 8; ++i) {
      prompts.emplace_back();
      for (std::uint32_t t = 0; t < 3 + 4 * i; ++t)
        prompts.back().push_back(static_cast<std::int32_t>(random_key{6}.below(60, i, t)));
    }
  }
  std::vector<rollout::response> answers(const rollout::generation& how, std::uint32_t samples = 1) {
    std::vector<rollout::request> asked;
    for (std::uint32_t i = 0; i < prompts.size(); ++i)
      for (std::uint32_t k = 0; k < samples; ++k) asked.push_back({prompts[i], i, k});
    rollout::engine<cpu> engine;
    auto all = engine.generate(model, space, asked, how, random_key{5}, [](std::size_t) {});
    preemptions = engine.usage().preemptions;
    return all;
  }
  std::size_t preemptions = 0;
};

rollout::generation ruled(rollout::logit_rules rules) {
  rollout::generation how{.sampling = {.temperature = 0.9f}, .max_new_tokens = 40, .eos_ids = {4, 9}};
  how.rules = std::move(rules);
  return how;
}

texts tokens_of(const std::vector<rollout::response>& all) {
  texts t;
  for (const rollout::response& r : all) t.push_back(r.tokens);
  return t;
}

TEST(ruled_generation, greedy_text_with_penalties_is_that_of_transformers) {
  const std::string python = scratch::python_with("torch, transformers");
  if (python.empty()) GTEST_SKIP() << "needs Python with transformers and torch";
  ruled_model m;
  const scratch::folder place;
  checkpoint::write_config(place.path(), m.model.settings());
  checkpoint::save_weights(place.path(), m.model.parameters(), {m.model.weights().data(), m.model.size()});
  nlohmann::json ours{{"prompts", m.prompts}, {"runs", nlohmann::json::array()}};
  texts plain;
  for (const float rho : {1.0f, 1.03f, 1.3f, 2.0f, 0.8f}) {
    rollout::logit_rules rules{.repetition_penalty = rho};
    if (rho == 1.3f) rules.min_tokens = 12, rules.ending_ids = {4, 9}, rules.bad_words = {{7}, {3, 11}};
    rollout::generation how = ruled(rules);
    how.sampling.temperature = 0;
    const texts text = tokens_of(m.answers(how));
    if (rho == 1)
      plain = text;
    else
      EXPECT_NE(text, plain) << rho;
    ours["runs"].push_back({{"repetition_penalty", rho},
                            {"min_new_tokens", rules.min_tokens},
                            {"bad_words_ids", rules.bad_words},
                            {"text", text}});
  }
  scratch::write(place / "ours.json", ours.dump());
  const auto result = scratch::run_python(python, R"(
import json, os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from transformers import AutoModelForCausalLM
from transformers.generation import RepetitionPenaltyLogitsProcessor
ours = json.load(open(os.path.join(sys.argv[1], "ours.json")))
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
generated = compared = 0
for run in ours["runs"]:
    rho = run["repetition_penalty"]
    more = {}
    if run["min_new_tokens"]:
        more["min_new_tokens"] = run["min_new_tokens"]
    if run["bad_words_ids"]:
        more["bad_words_ids"] = run["bad_words_ids"]
    for number, (prompt, text) in enumerate(zip(ours["prompts"], run["text"])):
        if number % 3 == 0 or more:
            got = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=40, eos_token_id=[4, 9],
                                 pad_token_id=0, repetition_penalty=rho, **more)[0, len(prompt):].tolist()
            assert got == text, (rho, prompt, got, text)
            generated += len(text)
        if not more:  # the processor itself
            ids, process = torch.tensor([prompt + text]), RepetitionPenaltyLogitsProcessor(rho)
            with torch.no_grad():
                logits = model(ids).logits
            for t, token in enumerate(text, len(prompt)):
                assert int(process(ids[:, :t], logits[:, t - 1].clone()).argmax()) == token, (rho, prompt, t)
            compared += len(text)
assert generated > 200 and compared > 500, (generated, compared)
print("agrees")
)",
                                          "'" + place.path().string() + "'");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_NE(result.output.find("agrees"), std::string::npos) << result.output;
}

TEST(ruled_generation, depends_on_no_limit_and_no_company) {
  ruled_model m;
  rollout::generation how = ruled({.allowed_token_ids = {},
                                   .bad_words = {{7}, {3, 11}},
                                   .min_tokens = 20,
                                   .ending_ids = {4, 9},
                                   .logit_bias = {{12, 1.5f}},
                                   .repetition_penalty = 1.2f,
                                   .frequency_penalty = 0.5f,
                                   .presence_penalty = 0.25f});
  how.sampling.min_p = 0.01f;
  const texts whole = tokens_of(m.answers(how, 3));
  std::size_t preempted = 0;
  for (const std::int64_t sequences : {1, 5, 64})
    for (const std::int64_t tokens : {7, 2048})
      for (const std::size_t pages : {3u, 7u, 1000u}) {
        rollout::generation other = how;
        other.max_sequences = sequences, other.max_batched_tokens = tokens;
        other.max_cache_bytes = pages * nn::kv_cache<cpu>::page_bytes(cpu(1), small_vocabulary());
        EXPECT_EQ(tokens_of(m.answers(other, 3)), whole) << sequences << ", " << tokens << ", " << pages;
        preempted += m.preemptions;
      }
  EXPECT_GT(preempted, 0u) << "histories have to survive that";
  for (const auto& text : whole) {
    EXPECT_GE(text.size(), 20u);
    EXPECT_EQ(std::ranges::count(text, 7), 0);
    for (std::size_t t = 1; t < text.size(); ++t) EXPECT_FALSE(text[t - 1] == 3 && text[t] == 11);
  }
}

TEST(ruled_generation, records_the_log_probs_of_training) {
  ruled_model m;
  rollout::generation how = ruled({.logit_bias = {{12, 4.0f}}, .repetition_penalty = 1.5f, .presence_penalty = 1});
  how.sampling.min_p = 0.05f;
  const auto answers = m.answers(how);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    ragged<std::int32_t> sequence;
    std::vector<std::int32_t> row = m.prompts[i];
    row.insert(row.end(), answers[i].tokens.begin(), answers[i].tokens.end());
    sequence.push_back(row);
    nn::targets targets;
    for (std::size_t t = 0; t < answers[i].tokens.size(); ++t) {
      targets.row.push_back(static_cast<std::int32_t>(m.prompts[i].size() + t) - 1);
      targets.token.push_back(answers[i].tokens[t]);
    }
    std::vector<float> logp(targets.token.size()), entropy(logp.size());
    nn::log_probs(m.model, m.space, sequence, targets, how.sampling.temperature, logp, entropy);
    EXPECT_EQ(answers[i].logp, logp);
    EXPECT_EQ(answers[i].entropy, entropy);
  }
}

TEST(ruled_generation, neutral_rules_change_no_bit) {
  ruled_model m;
  const auto plain = m.answers(ruled({}));
  const auto neutral = m.answers(ruled({.ending_ids = {4, 9}}));
  ASSERT_EQ(tokens_of(neutral), tokens_of(plain));
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(neutral[i].logp, plain[i].logp);
  const auto allowed = m.answers(ruled({.allowed_token_ids = {4, 9, 20}}));
  for (const auto& text : tokens_of(allowed))
    for (const std::int32_t token : text) EXPECT_TRUE(token == 4 || token == 9 || token == 20);
}

TEST(ruled_generation, refuses_rules_that_cannot_be) {
  ruled_model m;
  EXPECT_NE(thrown_by([&] { m.answers(ruled({.repetition_penalty = 0})); }).find("repetition_penalty="),
            std::string::npos);
  EXPECT_NE(thrown_by([&] { m.answers(ruled({.allowed_token_ids = {60}})); }).find("vocabulary of 60"),
            std::string::npos);
  EXPECT_NE(thrown_by([&] { m.answers(ruled({.min_tokens = 41})); }).find("max_tokens = 40"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
