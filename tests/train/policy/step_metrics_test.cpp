// Numbers of a step: hand-computed.
#include "rlcore/train/policy/step_metrics.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "rlcore/device/cpu.hpp"
#include "rlcore/objective/advantage/group_relative.hpp"
#include "rlcore/objective/aggregation.hpp"
#include "rlcore/telemetry/metric_names.hpp"
#include "rlcore/train/policy/algorithm/estimate_advantages.hpp"
#include "rlcore/train/policy/collect.hpp"
#include "rlcore/train/policy/reward/reward_source.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using train::metrics;
using train::trajectory;

trajectory make(std::int32_t prompt, std::size_t response, double score, verify::reason why) {
  trajectory t;
  t.prompt_length = prompt;
  t.tokens.assign(static_cast<std::size_t>(prompt) + response, 1);
  t.verdict = {score, why};
  t.reward = static_cast<float>(score);
  return t;
}

/// Prompts of 3 and 5 tokens, responses of 2, 4 (the longest allowed), 1 and 3.
std::vector<trajectory> example() {
  std::vector<trajectory> batch{make(3, 2, 1, verify::reason::correct), make(3, 4, 0, verify::reason::no_match),
                                make(5, 1, 0, verify::reason::wrong), make(5, 3, 0, verify::reason::outside_window)};
  batch[0].reward = 0.75f;
  const float advantage[] = {1, -0.5f, 0.25f, -2};
  for (std::size_t i = 0; i < 4; ++i) batch[i].advantage = advantage[i];
  return batch;
}

void expect_values(const metrics& m, const std::vector<std::pair<std::string, double>>& expected) {
  for (const auto& [name, x] : expected) EXPECT_NEAR(m.get(name), x, 1e-12) << name;
  for (const auto& [name, x] : m) EXPECT_TRUE(train::is_defined_metric(name)) << name;
}

TEST(policy_step_metrics, batch) {
  metrics m;
  train::batch_metrics(example(), 5, 4, m);
  expect_values(m, {{"critic/score/mean", 0.25},
                    {"critic/score/max", 1},
                    {"critic/score/min", 0},
                    {"critic/rewards/mean", 0.1875},
                    {"critic/rewards/max", 0.75},
                    {"critic/rewards/min", 0},
                    {"critic/advantages/mean", (2 * 1 - 4 * 0.5 + 1 * 0.25 - 3 * 2) / 10},  // over tokens
                    {"critic/advantages/max", 1},
                    {"critic/advantages/min", -2},
                    {"critic/returns/mean", (2 * 1 - 4 * 0.5 + 1 * 0.25 - 3 * 2) / 10},
                    {"response_length/mean", 2.5},
                    {"response_length/max", 4},
                    {"response_length/min", 1},
                    {"response_length/clip_ratio", 0.25},
                    {"prompt_length/mean", 4},
                    {"prompt_length/max", 5},
                    {"prompt_length/min", 3},
                    {"prompt_length/clip_ratio", 0.5},
                    {"reward/no_match", 0.25},
                    {"reward/outside_window", 0.25}});
}

TEST(policy_step_metrics, a_function_that_gives_scores_alone_says_nothing_of_answers) {
  std::vector<trajectory> batch = example();
  for (trajectory& t : batch) t.verdict = train::judged(t.score()).verdict;
  metrics m;
  train::batch_metrics(batch, 5, 4, m);
  EXPECT_TRUE(m.contains("critic/score/mean"));
  EXPECT_FALSE(m.contains("reward/no_match")) << "not 0";
  EXPECT_FALSE(m.contains("reward/outside_window"));
  batch[1] = example()[1], batch[2] = example()[2];  // two of a rule
  metrics mixed;
  train::batch_metrics(batch, 5, 4, mixed);
  EXPECT_EQ(mixed.get("reward/no_match"), 0.5);
}

TEST(policy_step_metrics, negative_numbers_have_a_maximum_below_zero) {
  std::vector<trajectory> batch{make(1, 1, -3, verify::reason::wrong), make(1, 1, -2, verify::reason::wrong)};
  metrics m;
  train::batch_metrics(batch, 5, 4, m);
  expect_values(m, {{"critic/score/max", -2}, {"critic/score/min", -3}, {"critic/score/mean", -2.5}});
}

TEST(policy_step_metrics, entropy_is_averaged_as_the_loss_is) {
  std::vector<trajectory> batch{make(1, 2, 0, verify::reason::wrong), make(1, 4, 0, verify::reason::wrong)};
  batch[0].entropy = {1, 3};
  batch[1].entropy = {0.5f, 0.5f, 1, 2};
  EXPECT_NEAR(train::rollout_entropy(batch, token_mean{}), 8.0 / 6, 1e-12);
  EXPECT_NEAR(train::rollout_entropy(batch, sequence_mean_token_mean{}), (2.0 + 1.0) / 2, 1e-12);
  EXPECT_NEAR(train::rollout_entropy(batch, sequence_mean_token_sum{}), (4.0 + 4.0) / 2, 1e-12);
  EXPECT_NEAR(train::rollout_entropy(batch, fixed_length{16}), 8.0 / 2 / 16, 1e-12);
}

TEST(policy_step_metrics, timing) {
  train::stages time;
  EXPECT_EQ(time.seconds("gen"), 0);
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  time("step", [&] {
    time("gen", sleep);
    const int result = time("adv", [&] { return sleep(), 7; });
    EXPECT_EQ(result, 7);
    time("gen", sleep);                                         // adds up
    EXPECT_THROW(time("ref", [&] { sleep(), throw 1; }), int);  // counted all the same
  });
  EXPECT_GE(time.seconds("gen"), 0.004);
  EXPECT_GE(time.seconds("ref"), 0.002);
  EXPECT_GE(time.seconds("step"), time.seconds("gen") + time.seconds("adv") + time.seconds("ref"));
  ASSERT_EQ(time.entries().size(), 4u);
  EXPECT_EQ(time.entries()[0].first, "step");
  EXPECT_EQ(time.entries()[1].first, "gen");

  const std::vector<trajectory> batch = example();  // 10 response tokens, 26 in all
  metrics m;
  train::timing_metrics(batch, time, m);
  expect_values(m, {{"timing_s/gen", time.seconds("gen")},
                    {"timing_per_token_ms/gen", 1000 * time.seconds("gen") / 10},
                    {"timing_per_token_ms/adv", 1000 * time.seconds("adv") / 26},
                    {"timing_per_token_ms/ref", 1000 * time.seconds("ref") / 26},
                    {"perf/total_num_tokens", 26},
                    {"perf/time_per_step", time.seconds("step")},
                    {"perf/throughput", 26 / time.seconds("step")}});
  EXPECT_FALSE(m.contains("timing_per_token_ms/step"));
}

TEST(policy_collect, advantages_compare_the_samples_of_one_prompt) {
  std::vector<trajectory> batch(7 - 1);
  const float reward[] = {1, 0, 0, 0.5f, 0.5f, 0.5f};
  for (std::size_t i = 0; i < 6; ++i) batch[i].reward = reward[i];
  train::estimate_advantages(group_relative{}, batch, 3);
  const double deviation = std::sqrt(1.0 / 3);  // of {1, 0, 0} with n - 1
  EXPECT_NEAR(batch[0].advantage, (2.0 / 3) / (deviation + 1e-6), 1e-6);
  EXPECT_NEAR(batch[1].advantage, (-1.0 / 3) / (deviation + 1e-6), 1e-6);
  EXPECT_EQ(batch[1].advantage, batch[2].advantage);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(batch[i].advantage, 0);  // nothing to learn from equal rewards
  train::estimate_advantages(group_relative{.normalize_by_std = false}, batch, 3);
  EXPECT_NEAR(batch[0].advantage, 2.0 / 3, 1e-6);
}

TEST(policy_collect, kl_in_the_reward_is_summed_over_tokens_and_logged_per_token) {
  std::vector<trajectory> batch{make(1, 2, 1, verify::reason::correct), make(1, 1, 0, verify::reason::wrong)};
  batch[0].old_logp = {-1, -2};
  batch[0].ref_logp = {-1.5f, -1.75f};
  batch[1].old_logp = {-3};
  batch[1].ref_logp = {-4};
  const double kl = train::penalise_rewards(batch, {.kind = kl_kind::k1, .coefficient = 0.5});
  EXPECT_NEAR(batch[0].reward, 1 - 0.5 * (0.5 - 0.25), 1e-7);
  EXPECT_NEAR(batch[1].reward, 0 - 0.5 * 1.0, 1e-7);
  EXPECT_NEAR(kl, (0.125 + 1.0) / 2, 1e-12);
  EXPECT_EQ(batch[0].token_reward, (std::vector<float>{-0.25f, 1.125f}));
  EXPECT_EQ(batch[0].score(), 1);  // the score itself stays
  EXPECT_NEAR(train::penalise_rewards(batch, {.kind = kl_kind::k2, .coefficient = 0.5}),
              ((0.125 + 0.03125) / 2 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(batch[1].reward, -0.25, 1e-7);  // from the score again, not on top of the last penalty
}

}  // namespace
}  // namespace RLCORE_TEST_ID
