// What settings.json records of a command line.
#include "rlcore/train/files/run_settings.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore::train;

nlohmann::ordered_json recorded(const std::vector<std::string>& arguments) {
  return numeric_settings(options::parse(arguments, main_ppo_registry()));
}

TEST(run_settings, a_setting_is_the_same_under_each_of_its_names) {
  const std::string actor = "actor_rollout_ref.actor.";
  EXPECT_EQ(recorded({actor + "optim.clip_grad=0.5"}), recorded({actor + "grad_clip=0.5"}));
  EXPECT_NE(recorded({actor + "optim.clip_grad=0.5"}), recorded({}));
  EXPECT_EQ(recorded({"reward.reward_model.model_path=a"}), recorded({}));  // a folder of a model may have moved
}

}  // namespace
}  // namespace RLCORE_TEST_ID
