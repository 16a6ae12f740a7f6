// algorithm.adv_estimator on trajectories: the worked numbers of the formulas, verl's bundles, OpenRLHF's own
// functions.
#include "rlcore/train/policy/algorithm/named_algorithm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "rlcore/objective/advantage/token_rewards.hpp"
#include "rlcore/objective/algorithm/verl.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::estimator_settings;
using train::trajectory;

/// The estimator that a word of the command line names.
struct named_estimator : train::any_algorithm {
  named_estimator(const char* word, const estimator_settings& s)
      : any_algorithm(group_relative{}, ppo_clip{}, token_mean{}) {
    train::estimator_words::visit("word", word, [&](auto row) { replace_advantage(row.compose(s)); });
  }
  void operator()(std::vector<trajectory>& batch, std::int64_t samples) const {
    advantages(batch, samples, random_key{});
  }
};
named_estimator named(const char* word, const estimator_settings& s = {}) { return {word, s}; }

trajectory make(std::size_t response, float reward) {
  trajectory t;
  t.prompt_length = 2;
  t.tokens.assign(2 + response, 1);
  t.old_logp.assign(response, -1.0f);
  t.verdict.score = static_cast<double>(reward);
  t.reward = reward;
  return t;
}

/// Two prompts with three answers of different lengths each.
std::vector<trajectory> answers() {
  const float reward[] = {1, 0, 0.5f, 0, 0, 2};
  const std::size_t length[] = {3, 1, 4, 2, 5, 2};
  std::vector<trajectory> batch;
  for (std::size_t i = 0; i < 6; ++i) batch.push_back(make(length[i], reward[i]));
  return batch;
}

TEST(estimator_words, gae_gives_the_worked_numbers) {
  std::vector<trajectory> batch{make(3, 1)};
  batch[0].value = {.1f, .2f, .3f};
  named("gae", {.lambda = 0.95})(batch, 1);
  const double white[] = {.9913431, .0170921, -1.0084353}, returns[] = {.92675, .965, 1.0};
  for (std::size_t t = 0; t < 3; ++t) {
    EXPECT_NEAR(batch[0].token_advantage[t], white[t], 2e-6);
    EXPECT_NEAR(batch[0].token_return[t], returns[t], 1e-6);
  }
}

TEST(estimator_words, grpo_gives_the_worked_numbers) {
  std::vector<trajectory> batch;
  for (const float r : {1.f, 0.f, 0.f, 1.f, 0.f}) batch.push_back(make(2, r));
  for (const char* word : {"grpo", "grpo_vectorized"}) {
    named(word)(batch, 5);
    EXPECT_NEAR(batch[0].advantage, 1.0954431, 1e-6);
    EXPECT_NEAR(batch[1].advantage, -0.7302954, 1e-6);
    EXPECT_TRUE(batch[0].token_advantage.empty());
  }
}

TEST(estimator_words, estimators_of_responses_are_those_of_namespace_verl) {
  const auto expect = [](const char* name, const auto& estimator) {
    SCOPED_TRACE(name);
    std::vector<trajectory> batch = answers();
    named(name)(batch, 3);
    std::vector<float> reward, advantage(6);
    std::vector<std::int64_t> length;
    for (const trajectory& t : batch) reward.push_back(t.reward), length.push_back(t.response_length());
    if constexpr (requires { estimator(reward, 3, length, advantage); })
      estimator(reward, 3, length, advantage);
    else
      estimator(reward, 3, advantage);
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(batch[i].advantage, advantage[i]);
      sum += static_cast<double>(std::abs(advantage[i]));
    }
    EXPECT_GT(sum, 0.5);
  };
  expect("grpo", verl::grpo().advantage);
  expect("rloo", verl::rloo().advantage);
  expect("rloo_vectorized", rloo{});
  expect("opo", verl::opo().advantage);
  expect("grpo_passk", verl::pass_at_k().advantage);
  expect("gpg", verl::gpg().advantage);
  expect("reinforce_plus_plus_baseline", verl::reinforce_plus_plus_baseline().advantage);
}

/// Two conversations of three turns and one of two: tokens 0 1 | reply | 2 | reply | 3 4, ...
std::vector<trajectory> conversations() {
  std::vector<trajectory> batch;
  const auto add = [&](std::vector<std::int32_t> replies, std::vector<double> rewards) {
    trajectory t = make(0, 0);
    for (std::size_t turn = 0; turn <= replies.size(); ++turn) {
      t.tokens.insert(t.tokens.end(), turn % 2 == 0 ? 2 : 1, 1);
      t.old_logp.insert(t.old_logp.end(), turn % 2 == 0 ? 2 : 1, -1.0f);
      if (turn == replies.size()) break;
      t.context.push_back({static_cast<std::int32_t>(t.response_length()), 2});
      t.tokens.insert(t.tokens.end(), {replies[turn], 9});
    }
    for (const double r : rewards) t.verdict.score += r;
    t.reward = static_cast<float>(t.verdict.score);
    t.turn_rewards = std::move(rewards);
    batch.push_back(std::move(t));
  };
  add({5, 6}, {0, 1, 0});
  add({6, 7}, {0, 0, 0});
  add({5}, {0, 3});
  return batch;
}

// A^E of rewards 1 0 3, mean 4/3. Returns with gamma 1/2: 1/2 1 0; 0 0 0; 3/2 3. Begin: 1/2 0 3/2, mean 2/3. After
// reply 5: 1 and 3, mean 2. After reply 6: 0 (third turn of the first) and 0 (second of the second). After 7: alone.
TEST(estimator_words, gigpo_compares_turns_that_begin_in_the_same_state) {
  std::vector<trajectory> batch = conversations();
  estimator_settings s;
  s.gamma = 0.5, s.gigpo_step_weight = 0.25, s.gigpo_normalize_by_std = false;
  named("gigpo", s)(batch, 3);
  const double e[] = {-1.0 / 3, -4.0 / 3, 5.0 / 3}, begin[] = {-1.0 / 6, -2.0 / 3, 5.0 / 6};
  const std::vector<std::vector<double>> turns{{e[0] + 0.25 * begin[0], e[0] - 0.25, e[0]},
                                               {e[1] + 0.25 * begin[1], e[1], e[1]},
                                               {e[2] + 0.25 * begin[2], e[2] + 0.25}};
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<float> expected;
    for (std::size_t k = 0; k < turns[i].size(); ++k)
      expected.insert(expected.end(), k % 2 == 0 ? 2 : 1, static_cast<float>(turns[i][k]));
    ASSERT_EQ(batch[i].token_advantage.size(), expected.size());
    for (std::size_t t = 0; t < expected.size(); ++t) EXPECT_NEAR(batch[i].token_advantage[t], expected[t], 1e-6) << i;
  }
  s.gigpo_normalize_by_std = true, s.gigpo_step_weight = 1;
  named("gigpo", s)(batch, 3);
  const double deviation = std::sqrt((1.0 / 9 + 16.0 / 9 + 25.0 / 9) / 2), two = std::sqrt(2.0);
  EXPECT_NEAR(batch[0].token_advantage[2], e[0] / (deviation + 1e-6) - 1 / (two + 1e-6), 1e-6);
}

TEST(estimator_words, gigpo_of_single_turns_is_grpo) {
  std::vector<trajectory> batch = answers(), group = answers();
  estimator_settings s;
  s.gigpo_step_weight = 0.5, s.gigpo_normalize_by_std = true;
  named("gigpo", s)(batch, 3);
  named("grpo", s)(group, 3);
  for (std::size_t i = 0; i < batch.size(); ++i)
    for (const float a : batch[i].token_advantage) EXPECT_NEAR(a, 1.5f * group[i].advantage, 1e-6);
}

// What a simulated user gives is not part of the score: it counts at the last turn.
TEST(estimator_words, gigpo_takes_turn_rewards_that_make_up_the_score) {
  std::vector<trajectory> own = conversations(), other = conversations();
  for (trajectory& t : other) t.turn_rewards.assign(t.turn_rewards.size(), 7);
  for (trajectory& t : own) {
    t.turn_rewards.assign(t.turn_rewards.size(), 0);
    t.turn_rewards.back() = t.verdict.score;
  }
  for (std::vector<trajectory>* batch : {&own, &other}) named("gigpo")(*batch, 3);
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_EQ(own[i].token_advantage, other[i].token_advantage);
    EXPECT_EQ(own[i].token_return, own[i].token_advantage) << "of a critic, as verl-agent has it";
  }
}

// An agent may begin each conversation in another state.
TEST(estimator_words, gigpo_compares_first_turns_of_equal_prompts) {
  std::vector<trajectory> same = conversations(), different = conversations();
  for (std::size_t i = 0; i < different.size(); ++i) different[i].tokens[0] = static_cast<std::int32_t>(20 + i);
  std::vector<trajectory> episodes = conversations();
  for (std::vector<trajectory>* batch : {&same, &different}) named("gigpo")(*batch, 3);
  estimator_settings s;
  s.normalize_by_std = false;
  named("grpo", s)(episodes, 3);
  for (std::size_t i = 0; i < same.size(); ++i)
    EXPECT_NEAR(different[i].token_advantage[0], episodes[i].advantage, 1e-6);
  EXPECT_NE(same[0].token_advantage[0], different[0].token_advantage[0]);
}

// Tokens that a correction rejects have no advantage.
TEST(estimator_words, gigpo_passes_over_rejected_tokens) {
  std::vector<trajectory> all = conversations(), some = conversations();
  some[0].untrained = {{1, 3}, {5, 2}};  // the second token of the first turn, both replies
  some[0].old_logp.resize(static_cast<std::size_t>(some[0].policy_length()));
  for (std::vector<trajectory>* batch : {&all, &some}) named("gigpo")(*batch, 3);
  std::vector<float> left = all[0].token_advantage;
  left.erase(left.begin() + 1);
  EXPECT_EQ(some[0].token_advantage, left);
}

// The positions of a table are the policy's tokens, so both baselines are one.
TEST(estimator_words, optimal_token_baselines_of_conversations_are_one) {
  std::vector<trajectory> a = conversations(), b = conversations();
  for (std::vector<trajectory>* batch : {&a, &b})
    for (trajectory& t : *batch) t.sum_squared_probs.assign(t.old_logp.size(), 0.4f);
  named("optimal_token_baseline")(a, 3);
  named("tir_optimal_token_baseline")(b, 3);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].token_advantage, b[i].token_advantage);
}

TEST(estimator_words, a_group_of_one) {
  for (const auto& [name, expected] : {std::pair{"rloo", 3.0f}, {"rloo_vectorized", 0.0f}, {"opo", 3.0f}}) {
    std::vector<trajectory> batch{make(2, 3)};
    named(name)(batch, 1);
    EXPECT_EQ(batch[0].advantage, expected) << name;
  }
}

TEST(estimator_words, remax_subtracts_the_greedy_score_from_what_follows) {
  std::vector<trajectory> batch{make(3, 0.5f)};
  batch[0].token_reward = {-0.25f, 0.5f, 0.25f};  // a KL penalty inside
  batch[0].greedy_score = 0.125f;
  EXPECT_EQ(named("remax").inputs(), advantage_input::greedy_scores);
  named("remax")(batch, 1);
  EXPECT_EQ(batch[0].token_return, (std::vector<float>{0.5f, 0.75f, 0.25f}));
  EXPECT_EQ(batch[0].token_advantage, (std::vector<float>{0.375f, 0.625f, 0.125f}));
}

TEST(estimator_words, token_rewards_and_gamma_reach_reinforce_plus_plus) {
  std::vector<trajectory> batch{make(2, 0.75f), make(1, -1)};
  batch[0].token_reward = {0.25f, 0.5f};
  named("reinforce_plus_plus", {.gamma = 0.5})(batch, 1);
  EXPECT_EQ(batch[0].token_return, (std::vector<float>{0.5f, 0.5f}));
  EXPECT_EQ(batch[1].token_return, (std::vector<float>{-1}));
  EXPECT_NEAR(batch[0].token_advantage[0], 0.5 / std::sqrt(0.75), 1e-6);  // mean 0, variance 1.5 / 2
  EXPECT_NEAR(batch[1].token_advantage[0], -1 / std::sqrt(0.75), 1e-6);
}

TEST(estimator_words, optimal_token_baseline_weighs_by_the_path) {
  std::vector<trajectory> batch{make(1, 1), make(1, 0)};
  batch[0].old_logp = {std::log(0.5f)}, batch[1].old_logp = {std::log(0.25f)};
  batch[0].sum_squared_probs = {0.5f}, batch[1].sum_squared_probs = {0.5f};
  EXPECT_EQ(named("optimal_token_baseline").inputs(), advantage_input::sum_squared_probs);
  named("optimal_token_baseline")(batch, 2);
  const double first = 1 - 2 * 0.5 + 0.5, second = 1 - 2 * 0.25 + 0.5, baseline = first / (first + second);
  EXPECT_NEAR(batch[0].token_advantage[0], 1 - baseline, 1e-6);
  EXPECT_NEAR(batch[1].token_advantage[0], -baseline, 1e-6);
  EXPECT_EQ(batch[0].token_return, (std::vector<float>{1}));
}

/// OpenRLHF's experience maker on the same rewards, log-probs and values.
TEST(openrlhf_advantage, equals_openrlhf) {
  const auto golden = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/advantage.json"));
  const auto& g = golden.at("openrlhf");
  const auto length = g.at("lengths").get<std::vector<std::size_t>>();
  const auto score = g.at("scores").get<std::vector<float>>();
  const double coefficient = g.at("coefficient");
  for (const auto& entry : g.at("cases").items()) {
    const std::string& name = entry.key();
    const nlohmann::json& expected = entry.value();
    if (name == "flash_reinforce") continue;  // newer than the flags of 0.7.5
    SCOPED_TRACE(name);
    std::vector<trajectory> batch;
    for (std::size_t i = 0; i < length.size(); ++i) {
      trajectory t = make(length[i], score[i]);
      const auto row = [&](const char* key) {
        auto all = g.at(key).at(i).get<std::vector<float>>();
        all.resize(length[i]);
        return all;
      };
      t.old_logp = row("old_logp"), t.ref_logp = row("ref_logp"), t.value = row("values");
      t.token_reward.resize(length[i]);
      kl_in_reward{kl_kind::k1, coefficient}(t.verdict.score, t.old_logp, t.ref_logp, t.token_reward);
      batch.push_back(std::move(t));
    }
    estimator_settings settings;
    const char* word = "reinforce_plus_plus";
    if (name == "gae") word = "gae", settings.lambda = 0.75;
    if (name == "gae" || name.starts_with("reinforce")) settings.gamma = 0.875;
    if (name == "rloo") word = "rloo";
    if (name == "reinforce_baseline") word = "reinforce_plus_plus_baseline";
    if (name == "group_norm" || name == "dr_grpo") word = "grpo", settings.normalize_by_std = name == "group_norm";
    train::openrlhf_estimator_words::visit("word", word, [&](auto row) {
      train::openrlhf_advantage{row.compose(settings), {-0.625, 0.625}, name != "reinforce_centred"}(batch,
                                                                                                     g.at("group"));
    });
    // The golden version no longer normalises rloo over the tokens of the step; 0.7.5 does.
    double mean = 0, square = 0, tokens = 0;
    const auto reference = [&](std::size_t i, std::size_t t) {
      return expected.at("advantages").at(i).at(t).get<double>();
    };
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t t = 0; t < length[i]; ++t)
        mean += reference(i, t), square += reference(i, t) * reference(i, t), ++tokens;
    mean /= tokens;
    const double scale = name == "rloo" ? 1 / std::sqrt(square / tokens - mean * mean) : 1,
                 centre = name == "rloo" ? mean : 0;
    for (std::size_t i = 0; i < batch.size(); ++i)
      for (std::size_t t = 0; t < length[i]; ++t)
        EXPECT_NEAR(batch[i].token_advantage[t], (reference(i, t) - centre) * scale, 3e-6) << i << "," << t;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
