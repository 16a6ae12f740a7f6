// Keys of a policy run that reach the models.
#include "rlcore/train/policy/settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/config/programs/main_ppo.hpp"
#include "rlcore/train/policy/critic.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

options parse(const std::vector<std::string>& given) { return options::parse(given, main_ppo_registry()); }

TEST(policy_settings, freeze_vision_tower_is_the_actors_and_the_critics_own) {
  const auto actor = [](const options& opt) { return read_settings(opt).freeze_vision_tower; };
  const auto critic = [](const options& opt) { return read_critic_settings(opt, {}, true)->freeze_vision_tower; };
  const options neither = parse({}), of_actor = parse({"actor_rollout_ref.actor.freeze_vision_tower=True"}),
                of_critic = parse({"critic.model.freeze_vision_tower=True"});
  EXPECT_FALSE(actor(neither) || critic(neither));
  EXPECT_TRUE(actor(of_actor) && !critic(of_actor));
  EXPECT_TRUE(critic(of_critic) && !actor(of_critic));
  for (const char* flag : {"--freeze_visual_encoder", "--actor.freeze_visual_encoder"}) {
    std::vector<std::string> openrlhf{
        "--pretrain", "m", "--apply_chat_template", "--prompt_data", "a.jsonl", "--n_samples_per_prompt", "4"};
    EXPECT_FALSE(actor(options::parse(openrlhf, grpo_trainer_registry())));
    openrlhf.emplace_back(flag);
    const options frozen = options::parse(openrlhf, grpo_trainer_registry());
    EXPECT_TRUE(actor(frozen) && !frozen.get<bool>("critic.model.freeze_vision_tower")) << flag;
  }
}

/// verl's keys with their strategy, newer names, its Megatron override, and OpenRLHF's flag reach the optimizers.
TEST(policy_settings, moments_are_offloaded_by_every_key) {
  const scratch::folder place;
  const std::string device = "trainer.device=npu_emulator", folder = "rlcore.offload_folder=" + place.path().string(),
                    actor = "actor_rollout_ref.actor.", megatron = actor + "strategy=megatron",
                    fsdp = actor + "fsdp_config.optimizer_offload=True";
  const auto of_actor = [](const options& opt) { return read_settings(opt).adamw.moments; };
  batch_plan plan;
  plan.prompts_per_step = plan.samples_per_prompt = 4;
  const auto of_critic = [&](const options& opt) { return read_critic_settings(opt, plan, true)->adamw.moments; };
  EXPECT_FALSE(of_actor(parse({device})).host);
  EXPECT_FALSE(of_actor(parse({fsdp})).host) << "on the CPU";
  EXPECT_EQ(of_actor(parse({fsdp, folder})).folder, place.path().string());
  EXPECT_TRUE(of_actor(parse({fsdp, folder})).host);
  EXPECT_TRUE(of_actor(parse({device, fsdp})).host && of_actor(parse({device, fsdp})).folder.empty());
  EXPECT_FALSE(of_actor(parse({device, fsdp, megatron})).host);
  EXPECT_TRUE(of_actor(parse({device, megatron, actor + "megatron.optimizer_offload=True"})).host);
  EXPECT_FALSE(of_actor(parse({device, actor + "megatron.optimizer_offload=True"})).host);
  EXPECT_TRUE(
      of_actor(parse({device, megatron, "+" + actor + "optim.override_optimizer_config.optimizer_cpu_offload=True"}))
          .host);
  EXPECT_FALSE(of_critic(parse({device, fsdp})).host);
  for (const char* key : {"critic.model.fsdp_config.optimizer_offload=True", "critic.fsdp.optimizer_offload=True"}) {
    EXPECT_TRUE(of_critic(parse({device, key})).host) << key;
    EXPECT_FALSE(of_actor(parse({device, key})).host) << key;
  }
  EXPECT_TRUE(of_critic(parse({device, megatron, "critic.megatron.optimizer_offload=True"})).host);
  const options openrlhf =
      options::parse(std::vector<std::string>{"--pretrain", "m", "--apply_chat_template", "--prompt_data", "a.jsonl",
                                              "--n_samples_per_prompt", "4", "--adam_offload", device},
                     grpo_trainer_registry());
  EXPECT_TRUE(of_actor(openrlhf).host && of_critic(openrlhf).host);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
