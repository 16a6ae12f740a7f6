// The policy trainers learn the embedded task: ten steps of each, from a validation reward near 0.05.
// tests/acceptance/policy_trainers.sh has whole runs and three seeds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/telemetry/logger.hpp"
#include "support/program.hpp"

namespace RLCORE_TEST_ID {
namespace {

TEST(embedded_task, ten_steps_of_each_policy_trainer_learn_it) {
  for (const char* name : {"quickstart", "ppo_trainer", "reinforce_plus_plus_trainer", "dapo_trainer"})
    if (!std::filesystem::exists(program::path_of(name))) GTEST_SKIP() << "no " << program::path_of(name);
  const scratch::folder place;
  const auto made = program::run("quickstart", {"--task_only"}, "cd '" + place.path().string() + "' &&");
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string task = (place / "runs/quickstart").string();

  using arguments = std::vector<std::string>;
  const std::vector<std::pair<std::string, arguments>> trainers = {
      {"ppo_trainer", {"algorithm.lam=0.95", "critic.optim.lr=1e-3", "critic.ppo_micro_batch_size_per_gpu=128"}},
      {"reinforce_plus_plus_trainer", {}},
      {"dapo_trainer", {"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc"}}};
  for (const auto& [name, own] : trainers) {
    const std::filesystem::path root = place / name;
    arguments words = {"data.train_files=" + task + "/data/train.jsonl",
                       "data.val_files=" + task + "/data/test.jsonl",
                       "actor_rollout_ref.model.path=" + task + "/model",
                       "data.train_batch_size=32",
                       "data.max_prompt_length=128",
                       "data.max_response_length=20",
                       "actor_rollout_ref.rollout.n=8",
                       "actor_rollout_ref.actor.ppo_mini_batch_size=8",
                       "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=128",
                       "actor_rollout_ref.actor.optim.lr=3e-4",
                       "actor_rollout_ref.model.enable_gradient_checkpointing=False",
                       "trainer.total_training_steps=10",
                       "trainer.test_freq=10",
                       "trainer.logger=console",
                       "trainer.default_local_dir=" + root.string()};
    words.insert(words.end(), own.begin(), own.end());
    const auto run = program::run(name, words);
    ASSERT_EQ(run.code, 0) << name << ": " << run.err;
    const auto rows = rlcore::train::read_metric_rows(root / "metrics.jsonl");
    ASSERT_EQ(rows.size(), 11u) << name;
    std::string reward;
    for (const auto& [metric, x] : rows.front().values)
      if (metric.starts_with("val-core/") && metric.ends_with("/mean@1")) reward = metric;
    ASSERT_FALSE(reward.empty()) << name;
    EXPECT_LT(rows.front().values.get(reward), 0.15) << name;
    EXPECT_GT(rows.back().values.get(reward), 0.75) << name;
  }
}

}  // namespace
}  // namespace RLCORE_TEST_ID
