// The settings that may differ when a run goes on.
#include "rlcore/train/files/run_settings.hpp"

#include <gtest/gtest.h>

#include <string>

#include "data/scratch.hpp"

namespace RLCORE_TEST_ID {
namespace {

using rlcore::train::free_settings;
using rlcore::train::is_free_setting;
using rlcore::train::model_settings;

TEST(free_settings, are_listed_in_the_documentation) {
  const std::string page = scratch::read(RLCORE_SOURCE_DIR "/docs/checkpoints.md");
  const auto listed = [&](std::string_view pattern) {
    return page.find("`" + std::string(pattern) + "`") != std::string::npos;
  };
  for (const std::string_view pattern : free_settings) EXPECT_TRUE(listed(pattern)) << pattern;
  for (const std::string_view pattern : model_settings) EXPECT_TRUE(listed(pattern)) << pattern;
}

TEST(free_settings, are_those_that_change_no_number) {
  for (const char* key : {"trainer.n_gpus_per_node", "actor_rollout_ref.actor.fsdp_config.fsdp_size", "rlcore.threads",
                          "critic.strategy", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu",
                          "data.val_batch_size", "data.val_files", "actor_rollout_ref.rollout.val_kwargs.temperature",
                          "eval_dataset", "save_path", "critic.model.path", "reward_pretrain", "use_wandb"})
    EXPECT_TRUE(is_free_setting(key)) << key;
  for (const char* key : {"actor_rollout_ref.actor.optim.lr", "data.train_batch_size", "actor_rollout_ref.rollout.n",
                          "rlcore.seed", "actor_rollout_ref.rollout.temperature", "data.max_response_length",
                          "algorithm.adv_estimator", "rlcore.compute", "model.lora_rank", "train_batch_size",
                          "init_kl_coef", "max_samples", "data.train_max_samples"})
    EXPECT_FALSE(is_free_setting(key)) << key;
}

}  // namespace
}  // namespace RLCORE_TEST_ID
