// Rules on logits: what they refuse, what they change and what is drawn then, against NumPy (tests/reference).
#include "rlcore/rollout/logit_rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/rollout/ruled_logits.hpp"
#include "rlcore/rollout/sampler.hpp"
#include "rollout/golden_sampling.hpp"
#include "support/thrown.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using rollout::logit_rules;
using rollout::sampling;

TEST(logit_rules, change_logits_as_numpy_does_to_the_bit) {
  ASSERT_GE(rlcore_test::sampling_cases().size(), 20u);
  for (const auto& c : rlcore_test::sampling_cases()) {
    std::vector<float> logits = c.logits, scratch;
    const auto history = c.history();
    rollout::apply_rules({&c.rules, &history, c.generated}, logits, scratch);
    EXPECT_EQ(logits, c.ruled) << c.name;
    EXPECT_EQ(c.rules.neutral(), c.ruled == c.logits && c.name != "min_tokens_reached") << c.name;
  }
}

TEST(logit_rules, kept_tokens_and_their_probabilities_are_those_of_numpy) {
  for (const auto& c : rlcore_test::sampling_cases()) {
    std::vector<rollout::token_logprob> kept;
    rollout::kept_tokens(c.sampling, c.ruled, kept);
    std::vector<std::int32_t> ids;
    for (const auto& t : kept) ids.push_back(t.token);
    if (c.sampling.greedy()) {  // the whole distribution is reported, the first token is drawn
      ASSERT_EQ(ids.front(), c.kept.front()) << c.name;
      const auto logp = rlcore_test::log_softmax(c.ruled, 1);
      for (const auto& t : kept) EXPECT_NEAR(t.logp, logp[static_cast<std::size_t>(t.token)], 1e-5) << c.name;
      continue;
    }
    ASSERT_EQ(ids, c.kept) << c.name;
    for (std::size_t i = 0; i < kept.size(); ++i) EXPECT_NEAR(kept[i].logp, std::log(c.p[i]), 2e-6) << c.name;
  }
}

TEST(logit_rules, draws_are_from_what_numpy_keeps) {
  cpu host(1), threads(2);
  any_device_of<cpu> apart(1);  // as if the host could not read its memory
  for (const auto& c : rlcore_test::sampling_cases()) {
    rlcore_test::expect_draws(host, c, 2e-6, 1e-5);
    rlcore_test::expect_draws(threads, c, 2e-6, 1e-5);
    rlcore_test::expect_draws<any_device>(apart, c, 2e-6, 1e-5);
    if (c.logits.size() % 4 == 0) rlcore_test::expect_draws(host, c, 2e-6, 1e-5, 4);
  }
}

TEST(logit_rules, rows_without_rules_keep_their_bits_beside_others) {
  cpu device(1);
  const std::vector<float> logits = [] {
    std::vector<float> x;
    for (std::uint32_t i = 0; i < 3 * 1100; ++i) x.push_back(static_cast<float>(3 * random_key{4}.normal(i)));
    return x;
  }();
  const std::vector<double> uniform{0.25, 0.5, 0.75};
  for (const sampling& how : {sampling{0.8f}, {1, 20, 0.9f}, {0.7f, -1, 1, 0.05f}}) {
    const auto draw = [&](const std::vector<rollout::ruled_row>& rules) {
      rollout::sampler<cpu> sampler;
      std::vector<std::int32_t> tokens(3);
      std::vector<float> logp(3), entropy(3);
      sampler(device, how, {1100, 1, 0, 1}, logits.data(), 1100, uniform, tokens, logp, entropy, rules);
      return tokens;
    };
    const auto plain = draw({});
    const logit_rules other{.bad_words = {{plain[1]}}}, neutral;
    EXPECT_EQ(draw({{}, {}, {}}), plain);
    EXPECT_EQ(draw(std::vector<rollout::ruled_row>(3, {&neutral})), plain);
    const auto mixed = draw({{}, {&other}, {&neutral}});
    EXPECT_EQ(mixed[0], plain[0]);
    EXPECT_NE(mixed[1], plain[1]);
    EXPECT_EQ(mixed[2], plain[2]);
  }
}

TEST(logit_rules, name_the_field_that_is_wrong) {
  const auto refusal = [](logit_rules r, std::vector<std::int32_t> never = {}) {
    return thrown_by([&] { r.validate(10, 5, never); });
  };
  EXPECT_EQ(refusal({}), "nothing was thrown");
  for (const float bad : {0.0f, -1.0f, 1e-39f, 3e38f, std::nanf(""), std::numeric_limits<float>::infinity()})
    EXPECT_EQ(refusal({.repetition_penalty = bad}).find("repetition_penalty="), 0u) << bad;
  for (const float bad : {-2.5f, 2.01f, std::nanf("")}) {
    EXPECT_EQ(refusal({.frequency_penalty = bad}).find("frequency_penalty="), 0u) << bad;
    EXPECT_EQ(refusal({.presence_penalty = bad}).find("presence_penalty="), 0u) << bad;
  }
  EXPECT_EQ(refusal({.frequency_penalty = -2, .presence_penalty = 2}), "nothing was thrown");
  EXPECT_EQ(refusal({.min_tokens = 6}), "min_tokens=6 must lie in [0, max_tokens = 5]");
  EXPECT_EQ(refusal({.min_tokens = -1}).find("min_tokens=-1"), 0u);
  EXPECT_EQ(refusal({.min_tokens = 5, .ending_ids = {9}}), "nothing was thrown");
  EXPECT_EQ(refusal({.allowed_token_ids = {3, 10}}),
            "allowed_token_ids: token 10 is not in the vocabulary of 10 tokens");
  EXPECT_EQ(refusal({.bad_words = {{3}, {-1, 2}}}).find("bad_words: token -1"), 0u);
  EXPECT_EQ(refusal({.bad_words = {{}}}), "bad_words: a word has no token");
  EXPECT_EQ(refusal({.ending_ids = {11}}).find("stop_token_ids: token 11"), 0u);
  EXPECT_EQ(refusal({.logit_bias = {{12, 1}}}).find("logit_bias: token 12"), 0u);
  EXPECT_EQ(refusal({.logit_bias = {{1, 100.5f}}}), "nothing was thrown");
  EXPECT_EQ(refusal({.logit_bias = {{1, -std::numeric_limits<float>::infinity()}}}).find("logit_bias of token 1="), 0u);
  EXPECT_EQ(refusal({.logit_bias = {{1, std::nanf("")}}}).find("logit_bias of token 1="), 0u);
}

TEST(logit_rules, leave_a_token_to_draw) {
  const std::string wanted = "allowed_token_ids, bad_words and min_tokens together may leave no token to draw";
  const auto refusal = [](const logit_rules& r, std::int64_t vocabulary, std::vector<std::int32_t> never = {}) {
    return thrown_by([&] { r.validate(vocabulary, 5, never); });
  };
  EXPECT_EQ(refusal({.allowed_token_ids = {1, 2}, .bad_words = {{1}, {1, 2}}}, 10), wanted);
  EXPECT_EQ(refusal({.allowed_token_ids = {1, 2}, .bad_words = {{1}, {7, 2}}}, 10), "nothing was thrown");  // no 7
  EXPECT_EQ(refusal({.allowed_token_ids = {1, 2}, .bad_words = {{1}, {2, 7}}}, 10), "nothing was thrown");
  EXPECT_EQ(refusal({.allowed_token_ids = {4}, .min_tokens = 1, .ending_ids = {4}}, 10), wanted);
  EXPECT_EQ(refusal({.allowed_token_ids = {4}, .ending_ids = {4}}, 10), "nothing was thrown");
  EXPECT_EQ(refusal({.allowed_token_ids = {4}}, 10, {4}), wanted);
  EXPECT_EQ(refusal({.bad_words = {{0}, {1}}}, 3, {2}), wanted);
  EXPECT_EQ(refusal({.bad_words = {{0}, {1}, {1}}}, 3), "nothing was thrown");
  std::vector<float> logits(3, 1.0f), scratch;
  const logit_rules biased{.logit_bias = {{0, 1000}, {2, -1000}}};  // vLLM clamps
  rollout::apply_rules({&biased}, logits, scratch);
  EXPECT_EQ(logits, (std::vector<float>{101, 1, -99}));
  const logit_rules none{.bad_words = {{0}, {1}, {2}}};
  EXPECT_EQ(thrown_by([&] { rollout::apply_rules({&none}, logits, scratch); }),
            "allowed_token_ids, bad_words and min_tokens leave no token to draw");
}

TEST(sampling, names_the_setting_that_is_wrong) {
  const auto refusal = [](const sampling& s) { return thrown_by([&] { s.validate(); }); };
  EXPECT_EQ(refusal({}), "nothing was thrown");
  EXPECT_EQ(refusal({1, -2}), "top_k=-2 must be -1 (all tokens) or more");
  EXPECT_EQ(refusal({1, 0, 1, 1}), "nothing was thrown");
  for (const float bad : {-0.1f, 1.1f, std::nanf("")}) EXPECT_EQ(refusal({1, -1, 1, bad}).find("min_p="), 0u) << bad;
  for (const float bad : {0.0f, 1.1f, std::nanf("")}) EXPECT_EQ(refusal({1, -1, bad}).find("top_p="), 0u) << bad;
  for (const float bad : {-1.0f, std::nanf("")}) EXPECT_EQ(refusal({bad}).find("temperature="), 0u) << bad;
}

TEST(sampling, the_servers_temperature_is_that_of_vllm) {
  EXPECT_EQ(rollout::vllm_temperature(0), 0);
  EXPECT_EQ(rollout::vllm_temperature(9e-6f), 0);
  EXPECT_EQ(rollout::vllm_temperature(1e-5f), 0.01f);
  EXPECT_EQ(rollout::vllm_temperature(0.01f), 0.01f);
  EXPECT_EQ(rollout::vllm_temperature(0.5f), 0.5f);
  EXPECT_EQ(rollout::vllm_temperature(-1), -1);
}

TEST(token_history, counts_what_a_map_counts) {
  std::map<std::int32_t, std::int64_t> counts;
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> prompt, text;
  for (std::uint32_t i = 0; i < 3000; ++i) {  // few tokens often, many once
    const auto spread = static_cast<std::uint32_t>(random_key{9}.below(2, i, 1));
    const auto token = static_cast<std::int32_t>(random_key{9}.below(spread == 0 ? 7 : 151936, i, 0));
    (i < 1000 ? prompt : text).push_back(token);
    seen.insert(token);
    if (i >= 1000) ++counts[token];
  }
  rollout::token_history grown, restored;
  EXPECT_FALSE(grown.contains(0));
  EXPECT_EQ(grown.generated(0), 0);
  grown.start(prompt);
  for (const std::int32_t token : text) grown.add(token);
  restored.start({{1, 2, 3}});
  restored.start(prompt, text);
  for (const rollout::token_history* h : {&grown, &restored}) {
    EXPECT_EQ(h->size(), seen.size());
    std::size_t visited = 0;
    h->for_each([&](std::int32_t token, std::int64_t times) {
      ++visited;
      EXPECT_TRUE(seen.contains(token));
      EXPECT_EQ(times, counts.contains(token) ? counts[token] : 0) << token;
    });
    EXPECT_EQ(visited, seen.size());
    for (std::int32_t token = 0; token < 20; ++token) {
      EXPECT_EQ(h->contains(token), seen.contains(token)) << token;
      EXPECT_EQ(h->generated(token), counts.contains(token) ? counts[token] : 0) << token;
    }
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
