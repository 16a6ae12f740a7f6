// Counts that follow from the batch settings, for published command lines.
#include "rlcore/config/settings/batch_plan.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "rlcore/config/programs/main_ppo.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

options parse(const char* name, std::vector<std::string> more = {}) {
  const auto data = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_command_lines.json"));
  auto args = data.at(name).get<std::vector<std::string>>();
  args.insert(args.end(), more.begin(), more.end());
  return options::parse(args, main_ppo_registry());
}

// 8 devices, 128 prompts, 5 samples, mini 64, micro 20, 7473 training rows.
TEST(batch_plan, quickstart) {
  const batch_plan plan = make_batch_plan(parse("quickstart"), 7473);
  EXPECT_EQ(plan.trajectories_per_step, 640);
  EXPECT_EQ(plan.trajectories_per_update, 320);
  EXPECT_EQ(plan.updates_per_step, 2);
  EXPECT_EQ(plan.steps_per_epoch, 58);
  EXPECT_EQ(plan.total_steps, 58);
  EXPECT_EQ(plan.warmup_steps, 0);
  EXPECT_EQ(plan.micro_batch_trajectories, 20);
  EXPECT_EQ(plan.micro_batches_per_update, 16);  // 2 on each of 8 devices
  EXPECT_TRUE(plan.warnings.empty());
  EXPECT_NE(plan.table().find("trajectories per micro-batch    20  at most, which saves memory"), std::string::npos)
      << plan.table();
}

// 16 devices, 16 prompts, mini 64, micro 8: refused by verl since March 2025; before, the gradient was halved.
TEST(batch_plan, mini_batch_larger_than_the_step) {
  const batch_plan plan = make_batch_plan(parse("sixteen_devices"), 7473);
  EXPECT_EQ(plan.mini_batch_prompts, 16);
  EXPECT_EQ(plan.trajectories_per_step, 80);
  EXPECT_EQ(plan.trajectories_per_update, 80);
  EXPECT_EQ(plan.updates_per_step, 1);
  EXPECT_EQ(plan.steps_per_epoch, 467);
  EXPECT_EQ(plan.total_steps, 467 * 15);
  ASSERT_EQ(plan.warnings.size(), 2u);
  EXPECT_NE(plan.warnings[0].find("divided the gradient by 2 micro-batches where there was 1"), std::string::npos)
      << plan.warnings[0];
  EXPECT_NE(plan.warnings[1].find("= 20 does not divide by ppo_micro_batch_size_per_gpu=8"), std::string::npos)
      << plan.warnings[1];
}

// 64 devices, sequence parallel 4, 64 prompts, 16 samples, mini 32, dynamic batches of 5632 tokens per device.
TEST(batch_plan, dynamic_batches) {
  const std::string actor = "actor_rollout_ref.actor.";
  std::vector<std::string> args = {"data.train_batch_size=64",
                                   "actor_rollout_ref.rollout.n=16",
                                   actor + "ppo_mini_batch_size=32",
                                   actor + "use_dynamic_bsz=True",
                                   actor + "ppo_max_token_len_per_gpu=5632",
                                   actor + "ulysses_sequence_parallel_size=4",
                                   "data.max_prompt_length=2048",
                                   "data.max_response_length=20480",
                                   "trainer.nnodes=4",
                                   "trainer.n_gpus_per_node=16",
                                   "actor_rollout_ref.model.use_remove_padding=True",
                                   actor + "optim.lr_warmup_steps_ratio=0.1",
                                   "trainer.total_training_steps=105"};
  const batch_plan plan = make_batch_plan(options::parse(args, main_ppo_registry()), 17000);
  EXPECT_EQ(plan.trajectories_per_step, 1024);
  EXPECT_EQ(plan.updates_per_step, 2);
  EXPECT_EQ(plan.trajectories_per_update, 512);
  EXPECT_EQ(plan.micro_batch_tokens, 22528);  // exactly prompt + response
  EXPECT_EQ(plan.total_steps, 105);
  EXPECT_EQ(plan.warmup_steps, 10);
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(batch_plan, a_warm_up_of_no_steps_is_a_share_of_them_since_verl_0_8) {
  const std::string optim = "actor_rollout_ref.actor.optim.";
  for (const auto& [version, steps] : {std::pair("0.6.1", 0), std::pair("0.8.0", 10), std::pair("0.9.1", 10)})
    EXPECT_EQ(make_batch_plan(
                  parse("quickstart", {optim + "lr_warmup_steps=0", optim + "lr_warmup_steps_ratio=0.1",
                                       "trainer.total_training_steps=105", "rlcore.verl=" + std::string(version)}),
                  7473)
                  .warmup_steps,
              steps)
        << version;
}

TEST(batch_plan, odd_cases) {
  const std::string actor = "actor_rollout_ref.actor.";
  const batch_plan plan = make_batch_plan(parse("quickstart", {actor + "ppo_mini_batch_size=50", actor + "ppo_epochs=2",
                                                               actor + "optim.lr_warmup_steps=7"}),
                                          200);
  EXPECT_EQ(plan.updates_per_step, 6);
  EXPECT_EQ(plan.warmup_steps, 7);
  EXPECT_EQ(plan.steps_per_epoch, 1);
  ASSERT_FALSE(plan.warnings.empty());
  EXPECT_NE(plan.warnings[0].find("only 28 prompts"), std::string::npos);
  EXPECT_THROW(make_batch_plan(parse("quickstart"), 127), rlcore::config_error);
  const batch_plan alone = make_batch_plan(
      options::parse(std::vector<std::string>{"data.train_batch_size=6", "actor_rollout_ref.rollout.n=3"},
                     main_ppo_registry()),
      60);
  EXPECT_EQ(alone.mini_batch_prompts, 6);
  EXPECT_EQ(alone.micro_batches_per_update, 1);
  EXPECT_TRUE(alone.warnings.empty());
}

TEST(batch_plan, refuses_products_of_more_than_64_bits) {
  const auto refused = [](const std::string& setting, const std::string& part) {
    try {
      make_batch_plan(parse("quickstart", {setting}), 7473);
      ADD_FAILURE() << setting;
    } catch (const rlcore::config_error& e) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  };
  const std::string most = "9223372036854775807";
  refused("actor_rollout_ref.rollout.n=" + most, "actor_rollout_ref.rollout.n=" + most + ": ");
  refused("actor_rollout_ref.actor.ppo_epochs=" + most, "ppo_epochs=" + most + ": ");
  refused("trainer.total_epochs=" + most, "trainer.total_epochs=" + most + ": 58 x " + most);
}

// 8 devices are 2 data ranks of 2 stages and 2 tensor parallel ranks: a mini-batch of 8 gives each 4.
TEST(batch_plan, stages_and_tensor_ranks_share_trajectories) {
  const std::string actor = "actor_rollout_ref.actor.", megatron = actor + "megatron.";
  std::vector<std::string> line{"data.train_batch_size=9",
                                "trainer.n_gpus_per_node=8",
                                actor + "strategy=megatron",
                                actor + "ppo_mini_batch_size=8",
                                actor + "ppo_micro_batch_size_per_gpu=4",
                                megatron + "pipeline_model_parallel_size=2",
                                megatron + "tensor_model_parallel_size=2"};
  const auto warnings = [&] { return make_batch_plan(options::parse(line, main_ppo_registry()), 60).warnings; };
  ASSERT_EQ(warnings().size(), 2u);
  EXPECT_NE(warnings()[1].find("= 9 does not divide by the 2 data ranks"), std::string::npos) << warnings()[1];
  line[0] = "data.train_batch_size=8";
  EXPECT_TRUE(warnings().empty());
}

}  // namespace
}  // namespace RLCORE_TEST_ID
