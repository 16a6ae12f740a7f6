// Keys of a policy run that reach the models.
#include "rlcore/train/policy/settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

}  // namespace
}  // namespace RLCORE_TEST_ID
