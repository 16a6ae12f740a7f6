// Flags of OpenRLHF's train_ppo_ray that stand for keys: those of its published scripts.
#include "rlcore/config/keys/openrlhf_ppo_flags.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "rlcore/config/programs/main_ppo.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace rlcore;
using namespace rlcore::train;
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
  EXPECT_EQ(remote.get<std::string>("rlcore.data_source"), "unknown") << "a program is sent labels alone";
  EXPECT_FALSE(with.find<std::string>("rlcore.data_source").has_value());
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
  EXPECT_THAT(opt.notes(), Contains(AllOf(HasSubstr("without effect"), HasSubstr("--ref_num_gpus_per_node 8"),
                                          HasSubstr("--colocate_all_models"), HasSubstr("--vllm_num_engines 4"),
                                          Not(HasSubstr("actor_num")))));
}

// One batch in play beside that of a step: a queue of one.
TEST(openrlhf_ppo_flags, partial_rollouts_train_asynchronously) {
  const std::vector<std::string> sizes{"--rollout_batch_size",   "16", "--train_batch_size", "32",
                                       "--n_samples_per_prompt", "8",  "--async_train"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = sizes;
    all.insert(all.end(), more.begin(), more.end());
    return ppo(all);
  };
  EXPECT_FALSE(read_async_training(with({})).enabled);
  const options opt = with({"--partial_rollout"});
  const async_settings s = read_async_training(opt);
  EXPECT_TRUE(s.enabled && s.partial_rollout);
  EXPECT_EQ(s.staleness_threshold, 1);
  EXPECT_EQ(read_async_training(with({"--partial_rollout", "--async_queue_size", "3"})).staleness_threshold, 3);
  EXPECT_THAT([&] { with({"--async_queue_size", "3"}); },
              testing::ThrowsMessage<config_error>(HasSubstr("more with --partial_rollout")));
  EXPECT_EQ(s.steps_per_copy, 1);
  EXPECT_EQ(opt.get<std::int64_t>("data.train_batch_size"), 16);
  EXPECT_EQ(opt.get<std::int64_t>("rlcore.async_depth"), 0);
  EXPECT_THAT([&] { with({"--partial_rollout", "--rollout_batch_size", "18"}); },
              testing::ThrowsMessage<config_error>(HasSubstr("is no multiple of the 4 prompts of an update")));
  EXPECT_THAT([&] { ppo({"--partial_rollout"}); },
              testing::ThrowsMessage<config_error>(HasSubstr("--partial_rollout needs --async_train")));
}

/// Checks are written with verl's keys; who gave flags reads flags.
TEST(openrlhf_ppo_flags, stand_in_messages) {
  const auto refusal = [](std::vector<std::string> more) {
    try {
      ppo(std::move(more));
    } catch (const config_error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal({"--temperature", "0"}), "--temperature 0.0: expected a number > 0; training samples at random");
  EXPECT_EQ(refusal({"actor_rollout_ref.rollout.temperature=0"}),
            "actor_rollout_ref.rollout.temperature=0: expected a number > 0; training samples at random");
  EXPECT_EQ(refusal({"--prompt_max_len", "90", "actor_rollout_ref.rollout.max_model_len=100"}),
            "actor_rollout_ref.rollout.max_model_len=100 is smaller than --prompt_max_len + --generate_max_len = 1114");
  EXPECT_EQ(refusal({"--advantage_estimator", "reinforce", "actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean"}),
            "actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean takes one advantage per response, "
            "--advantage_estimator reinforce (adv_estimator=reinforce_plus_plus) has one per token; expected an "
            "estimator such as grpo or rloo");
  EXPECT_THAT(
      ppo({"algorithm.gamma=0.5", "--advantage_estimator", "group_norm", "--n_samples_per_prompt", "2"}).notes(),
      Contains("algorithm.gamma has no effect with --advantage_estimator group_norm (adv_estimator=grpo)"));

  const typed_names names = ppo({"--prompt_data", "a", "--bf16", "--actor_num_nodes", "1", "--lora_rank", "4"}).typed();
  for (const auto& [message, shown] : std::initializer_list<std::pair<const char*, const char*>>{
           {"data.train_files: x.jsonl: cannot open", "--prompt_data: x.jsonl: cannot open"},
           {"a larger rollout.n makes answers differ", "a larger --n_samples_per_prompt makes answers differ"},
           {"name rlcore.label_key=COLUMN, custom_reward_function.path=FILE or reward_model.enable=True.",
            "name --label_key COLUMN, --remote_rm_url FILE or --reward_pretrain FOLDER."},
           {"pass trainer.resume_mode=disable", "pass no --load_checkpoint"},
           {"trainer.resume_mode=auto goes on", "--load_checkpoint goes on"},
           {"rlcore.compute=bfloat16 and trainer.nnodes=1", "--bf16 and --actor_num_nodes 1"},
           {"data.max_response_length=1024 (set another)", "--generate_max_len 1024 (set another)"},
           {"data.max_response_length=1025 would do.", "data.max_response_length=1025 would do."},
           {"critic.model.enable_gradient_checkpointing=False", "no --gradient_checkpointing"},
           {"/tmp/data.train_files and model.path", "/tmp/data.train_files and model.path"},
           {"algorithm.filter_groups.enable=True", "algorithm.filter_groups.enable=True"}})
    EXPECT_EQ(names.in(message), shown);
  EXPECT_TRUE(
      options::parse(std::vector<std::string>{"data.train_batch_size=4"}, ppo_trainer_registry()).typed().empty());
  EXPECT_EQ(ppo({"--prompt_data", "a", "data.max_response_length=5"}).typed().in("data.max_response_length=5"),
            "data.max_response_length=5")
      << "it was typed so";
}

}  // namespace
}  // namespace RLCORE_TEST_ID
