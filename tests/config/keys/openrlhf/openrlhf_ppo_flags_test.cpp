// Flags of OpenRLHF's train_ppo_ray that stand for keys: those of its published scripts.
#include "rlcore/config/keys/openrlhf/openrlhf_ppo_flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"

namespace {

using namespace rlcore;
using namespace rlcore::trainer;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

options ppo(std::vector<std::string> more) {
  for (const char* word : {"--pretrain", "m", "--apply_chat_template"}) more.emplace_back(word);
  return options::parse(more, ppo_trainer_registry());
}

// grpo_trainer without --advantage_estimator is GRPO, as its name says; with verl's keys nothing of OpenRLHF counts.
TEST(openrlhf_ppo_flags, grpo_trainer_takes_them) {
  const auto grpo = [](std::vector<std::string> more) { return options::parse(more, grpo_trainer_registry()); };
  const std::vector<std::string> flags = {
      "--pretrain", "m", "--apply_chat_template", "--prompt_data", "a", "--n_samples_per_prompt", "4"};
  const auto by_flags = grpo(flags);
  EXPECT_EQ(by_flags.get<std::string>("algorithm.adv_estimator"), "grpo");
  EXPECT_EQ(by_flags.get<std::string>("rlcore.advantages"), "openrlhf");
  EXPECT_EQ(by_flags.get<std::string>("actor_rollout_ref.model.path"), "m");
  auto named = flags;
  named.insert(named.end(), {"--advantage_estimator", "rloo"});
  EXPECT_EQ(grpo(named).get<std::string>("algorithm.adv_estimator"), "rloo");
  const auto by_keys = grpo({"actor_rollout_ref.model.path=m"});
  EXPECT_EQ(by_keys.get<std::string>("algorithm.adv_estimator"), "grpo");
  EXPECT_EQ(by_keys.get<std::string>("rlcore.advantages"), "verl");
  EXPECT_EQ(by_keys.get<std::int64_t>("data.train_batch_size"), 1024);
}

TEST(openrlhf_ppo_flags, files_are_separated_by_commas_and_may_be_cut) {
  const auto opt = ppo({"--prompt_data", "a.jsonl,b.jsonl", "--max_samples", "100000"});
  EXPECT_THAT(opt.list("data.train_files"), ElementsAre("a.jsonl", "b.jsonl"));
  EXPECT_EQ(opt.get<std::int64_t>("data.train_max_samples"), 100000);
  EXPECT_EQ(opt.get<std::int64_t>("data.val_max_samples"), 100000);
  EXPECT_THAT(ppo({"--prompt_data", "a.jsonl"}).list("data.train_files"), ElementsAre("a.jsonl"));
}

TEST(openrlhf_ppo_flags, without_rows_to_evaluate_nothing_is_validated) {
  const auto none = ppo({"--prompt_data", "a", "--eval_steps", "10"});
  EXPECT_TRUE(none.list("data.val_files").empty());
  EXPECT_THAT(none.notes(), Contains(HasSubstr("--eval_steps without --eval_dataset: nothing is validated")));
  const auto flag = ppo({"--prompt_data", "a", "--eval_dataset", "b,c", "--eval_steps", "10"});
  EXPECT_THAT(flag.list("data.val_files"), ElementsAre("b", "c"));
  EXPECT_EQ(flag.get<std::int64_t>("trainer.test_freq"), 10);
  EXPECT_THAT(flag.notes(), Not(Contains(HasSubstr("--eval_steps"))));
  EXPECT_THAT(ppo({"--prompt_data", "a", "data.val_files=d"}).list("data.val_files"), ElementsAre("d"));
}

TEST(openrlhf_ppo_flags, scores_are_normalised_where_a_reward_model_gives_them) {
  const auto with = ppo({"--prompt_data", "a", "--normalize_reward", "--reward_pretrain", "rm"});
  EXPECT_TRUE(with.get<bool>("rlcore.normalize_reward"));
  EXPECT_THAT(with.notes(), Contains(HasSubstr("the critic's values are their own")));
  const auto remote = ppo({"--prompt_data", "a", "--normalize_reward", "--remote_rm_url", "./score"});
  EXPECT_FALSE(remote.get<bool>("rlcore.normalize_reward"));
  EXPECT_THAT(remote.notes(), Contains(HasSubstr("--normalize_reward: no effect without a reward model")));
  EXPECT_FALSE(ppo({"--prompt_data", "a", "--reward_pretrain", "rm"}).get<bool>("rlcore.normalize_reward"));
}

TEST(openrlhf_ppo_flags, of_number_formats) {
  EXPECT_EQ(ppo({"--prompt_data", "a", "--bf16"}).get<std::string>("rlcore.compute"), "bfloat16");
  EXPECT_FALSE(ppo({"--prompt_data", "a"}).find<std::string>("rlcore.compute").has_value());
}

TEST(openrlhf_ppo_flags, of_machines_are_ranks_or_said_to_have_no_effect) {
  const auto opt = ppo({"--prompt_data", "a", "--actor_num_nodes", "2", "--actor_num_gpus_per_node", "4",
                        "--ref_num_gpus_per_node", "8", "--colocate_all_models", "--vllm_num_engines", "4"});
  EXPECT_EQ(opt.get<std::int64_t>("trainer.nnodes"), 2);
  EXPECT_EQ(opt.get<std::int64_t>("trainer.n_gpus_per_node"), 4);
  EXPECT_EQ(asked_ranks(opt), 8);
  EXPECT_THAT(opt.notes(), Contains(AllOf(HasSubstr("without effect"), HasSubstr("ref_num_gpus_per_node=8"),
                                          HasSubstr("colocate_all_models=True"), HasSubstr("vllm_num_engines=4"),
                                          Not(HasSubstr("actor_num")))));
}

}  // namespace
