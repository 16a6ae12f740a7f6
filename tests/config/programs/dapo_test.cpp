// The command lines of published DAPO scripts (tests/reference/trainer_dapo_command_lines.json: their overrides with
// other paths) against the registry, and the rules of dynamic sampling.
#include "rlcore/config/programs/main_ppo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rlcore/config/settings/batch_plan.hpp"
#include "rlcore/train/policy/settings.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
using arguments = std::vector<std::string>;

arguments command_line(const std::string& name) {
  static const auto data =
      nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_dapo_command_lines.json"));
  return data.at(name).get<arguments>();
}
options parsed(const arguments& given) { return options::parse(given, dapo_registry()); }
bool has_note(const options& opt, const std::string& part) {
  for (const std::string& note : opt.notes())
    if (note.find(part) != std::string::npos) return true;
  return false;
}
bool warns(const batch_plan& plan, const std::string& part) {
  for (const std::string& line : plan.warnings)
    if (line.find(part) != std::string::npos) return true;
  return false;
}
std::string refusal(const arguments& given) {
  try {
    parsed(given);
  } catch (const config_error& e) {
    return e.what();
  }
  return "";
}

TEST(dapo_registry, takes_openrlhfs_flags_and_says_what_they_lack) {
  const arguments flags{"--pretrain", "m", "--prompt_data", "a", "--apply_chat_template", "--n_samples_per_prompt",
                        "4"};
  const options opt = parsed(flags);
  EXPECT_EQ(opt.get<std::string>("algorithm.adv_estimator"), "grpo");
  EXPECT_EQ(opt.get<std::string>("rlcore.advantages"), "openrlhf");
  EXPECT_EQ(opt.get<std::int64_t>("actor_rollout_ref.rollout.n"), 4);
  EXPECT_EQ(opt.get<std::string>("reward_model.reward_manager"), "dapo");
  EXPECT_TRUE(has_note(opt, "this is GRPO: OpenRLHF's flags have nothing of DAPO; add algorithm.filter_groups.enable"));
  arguments more = flags;
  more.insert(more.end(), {"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc",
                           "actor_rollout_ref.actor.clip_ratio_high=0.28"});
  const options dapo = parsed(more);
  EXPECT_FALSE(has_note(dapo, "this is GRPO"));
  EXPECT_EQ(read_policy_loss(dapo).clip.clip_high, 0.28);
  EXPECT_EQ(read_policy_loss(dapo).clip.clip_low, 0.2);
  EXPECT_TRUE(read_settings(dapo).dynamic_sampling.enabled);
  EXPECT_FALSE(has_note(parsed({}), "this is GRPO")) << "verl's keys are DAPO's own";
}

TEST(dapo_registry, qwen3_32b) {
  const arguments given = command_line("qwen3_32b_fsdp2");
  EXPECT_EQ(given.size(), 78u);  // trainer.val_before_train twice
  const options opt = parsed(given);
  const policy_settings s = read_settings(opt);
  EXPECT_FALSE(s.dynamic_sampling.enabled);
  EXPECT_EQ(s.dynamic_sampling.max_rounds, 10);
  const verl::clip_settings clip = read_policy_loss(opt).clip;
  EXPECT_EQ(clip.clip_low, 0.2);
  EXPECT_EQ(clip.clip_high, 0.28);
  EXPECT_EQ(clip.clip_c, 10);
  ASSERT_TRUE(s.reward.dapo_manager && s.reward.overlong);
  EXPECT_EQ(s.reward.overlong->penalty(16384), 0);
  EXPECT_NEAR(s.reward.overlong->penalty(18000), -0.39453125, 1e-15);
  EXPECT_EQ(s.reward.overlong->penalty(20480), -1);
  EXPECT_EQ(opt.get<std::string>("trainer.device"), "npu");
  EXPECT_TRUE(s.recompute_old_log_prob);
  const batch_plan plan = make_batch_plan(opt, 17000);
  EXPECT_EQ(plan.trajectories_per_step, 1024);
  EXPECT_EQ(plan.updates_per_step, 2);
  EXPECT_EQ(plan.micro_batch_tokens, 22528);
  EXPECT_EQ(plan.total_steps, 17000 / 64 * 10);
  EXPECT_TRUE(plan.warnings.empty());
}

TEST(dapo_registry, qwen3_235b_with_megatron) {
  const arguments given = command_line("qwen3_235b_megatron");
  EXPECT_EQ(given.size(), 97u + 2);
  const options opt = parsed(given);
  const policy_settings s = read_settings(opt);
  EXPECT_TRUE(s.dynamic_sampling.enabled);
  EXPECT_EQ(s.dynamic_sampling.metric, group_metric::acc);
  EXPECT_EQ(s.dynamic_sampling.max_rounds, 30);
  ASSERT_TRUE(s.reward.overlong);
  EXPECT_EQ(s.reward.overlong->max_length, 34816);
  EXPECT_EQ(opt.get<std::string>("actor_rollout_ref.actor.strategy"), "megatron");
  EXPECT_TRUE(has_note(opt, "--config-path"));
  EXPECT_TRUE(has_note(opt, "dist_checkpointing_path is not read"));
  EXPECT_TRUE(has_note(opt, "+data.gen_batch_size: the key is known"));
  const batch_plan plan = make_batch_plan(opt, 17000);
  EXPECT_EQ(plan.trajectories_per_step, 4096);
  EXPECT_EQ(plan.updates_per_step, 8);
  EXPECT_EQ(plan.total_steps, 100);
  EXPECT_EQ(plan.total_rounds, 0);
}

TEST(dapo_registry, the_others) {
  struct expected {
    const char* name;
    std::size_t overrides;
    bool filter;
    std::int64_t prompts_per_round, prompts_per_step, total_rounds;
  };
  for (const expected& e :
       {expected{"qwen3_30b_fsdp", 88, true, 96, 32, 100 * (17000 / 96)},
        expected{"qwen3_8b_base_npu", 81, false, 48, 48, 0}, expected{"qwen3_14b_base_npu", 82, false, 32, 32, 0},
        expected{"qwen2.5_7b_npu", 84, true, 48, 16, 17000 / 48},
        expected{"qwen3_30b_base_npu", 79, true, 1536, 512, 17000 / 1536}}) {
    SCOPED_TRACE(e.name);
    const arguments given = command_line(e.name);
    EXPECT_EQ(given.size(), e.overrides);
    const options opt = parsed(given);
    const policy_settings s = read_settings(opt);
    EXPECT_EQ(s.dynamic_sampling.enabled, e.filter);
    EXPECT_TRUE(s.reward.dapo_manager && s.reward.overlong && s.reward.overlong->buffer == 4096);
    const batch_plan plan = make_batch_plan(opt, 17000);
    EXPECT_EQ(plan.prompts_per_round, e.prompts_per_round);
    EXPECT_EQ(plan.prompts_per_step, e.prompts_per_step);
    EXPECT_EQ(plan.total_rounds, e.total_rounds);
    // Without the filter verl trains on everything it has sampled: 48 prompts in mini-batches of 1.
    EXPECT_EQ(warns(plan, "train_batch_size=16 has no effect"), !e.filter);
  }
}

TEST(dapo_registry, defaults_and_refusals) {
  const options opt = parsed({});
  EXPECT_EQ(opt.get<std::string>("reward_model.reward_manager"), "dapo");
  EXPECT_EQ(opt.get<std::string>("trainer.project_name"), "verl-dapo");
  for (const char* name : {"dapo_trainer", "dapo_megatron_trainer", "ppo_trainer", "ppo_megatron_trainer.yaml"})
    EXPECT_EQ(refusal({"--config-name", name}), "");
  EXPECT_NE(refusal({"--config-name=dapo_trianer"}).find("did you mean 'dapo_trainer'"), std::string::npos);
  EXPECT_NE(refusal({"algorithm.filter_groups.enable=True"}).find("filter_groups.enable=True needs"),
            std::string::npos);
  EXPECT_NE(refusal({"algorithm.filter_groups.metric=accuracy"}).find("expected acc, score"), std::string::npos);
  const std::string config = "+actor_rollout_ref.model.override_config.";
  EXPECT_EQ(refusal({config + "attention_dropout=0."}), "");
  EXPECT_NE(refusal({config + "attention_dropout=0.1"}).find("expected 0; this build has no dropout"),
            std::string::npos);
  EXPECT_EQ(refusal({config + "attn_implementation=eager"}), "");
  const options eager = parsed({config + "attn_implementation=eager"});
  EXPECT_EQ(std::count(eager.notes().begin(), eager.notes().end(),
                       "accepted, without effect on this device: "
                       "actor_rollout_ref.model.override_config={attn_implementation:eager}"),
            1);
  EXPECT_NE(refusal({config + "max_position_embeddings=4096"}).find("=4096: config.json says what the model is; edit"),
            std::string::npos);
  EXPECT_NE(refusal({config + "atention_dropout=0"}).find("did you mean 'attention_dropout'"), std::string::npos);
  const std::string chat = "+data.apply_chat_template_kwargs.";
  EXPECT_EQ(read_settings(parsed({chat + "enable_thinking=False"})).enable_thinking, false);
  EXPECT_EQ(read_settings(parsed({})).enable_thinking, std::nullopt);
  EXPECT_NE(refusal({chat + "enable_thinking=maybe"}).find("expected True or False"), std::string::npos);
  EXPECT_NE(refusal({chat + "enable_thinkin=True"}).find("did you mean 'enable_thinking'"), std::string::npos);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
