// build/bin/dapo_trainer: published command lines, dynamic sampling over checkpoints, its clean stop, sources of
// rewards.
#include <fstream>

#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class dapo_trainer : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(program::path_of("dapo_trainer"))) GTEST_SKIP() << "no " << program::path_of("dapo_trainer");
    files = tiny_model::make(place.path());
  }
  fs::path root(const std::string& name) const { return place / name; }

  /// 2 prompts x 6 samples of 4 sampled prompts: some groups always wait.
  arguments settings(const std::string& name) const {
    return grpo::settings(files, root(name)) + arguments{"data.train_batch_size=2",
                                                         "data.gen_batch_size=4",
                                                         "actor_rollout_ref.rollout.n=6",
                                                         "algorithm.filter_groups.enable=True",
                                                         "algorithm.filter_groups.metric=acc",
                                                         "trainer.test_freq=-1"};
  }
  program::result run(const std::string& name, const arguments& more = {}) const {
    return program::run("dapo_trainer", settings(name) + more);
  }
  program::result train(const std::string& name, const arguments& more = {}) const {
    const program::result r = run(name, more);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r;
  }
  double last(const std::string& name, const std::string& metric) const {
    const auto all = rows(root(name));
    return all.empty() ? -1 : nlohmann::json::parse(all.back()).value(metric, -1.0);
  }
  void refused(const arguments& more, const std::string& part) const {
    SCOPED_TRACE(part);
    const program::result r = run("refused", more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  /// A published command line on the tiny model, on one rank, and on the CPU for want of an NPU.
  program::result published(const std::string& name, const arguments& smaller) const {
    static const auto lines =
        nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/trainer_dapo_command_lines.json"));
    return program::run(
        "dapo_trainer",
        lines.at(name).get<arguments>() +
            arguments{"data.train_files=" + files.train.string(), "data.val_files=" + files.val.string(),
                      "actor_rollout_ref.model.path=" + files.model.string(), "data.max_prompt_length=128",
                      "data.max_response_length=6", "data.train_batch_size=2", "data.gen_batch_size=2",
                      "actor_rollout_ref.rollout.n=6", "actor_rollout_ref.actor.ppo_mini_batch_size=1",
                      "reward_model.overlong_buffer.len=2", "trainer.total_training_steps=2", "trainer.device=cpu",
                      "trainer.default_local_dir=" + root(name).string(), "rlcore.threads=1", "trainer.nnodes=1",
                      "trainer.n_gpus_per_node=1"} +
            smaller);
  }

  const scratch::folder place;
  tiny_model::files files;
};

TEST_F(dapo_trainer, the_published_command_lines_train) {
  program::result r =
      published("qwen3_32b_fsdp2", {"trainer.logger=[console,file]", "reward_model.overlong_buffer.log=True",
                                    "trainer.rollout_data_dir=" + root("qwen3_32b_fsdp2").string() + "/rollouts"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("step:2 - "), std::string::npos);
  double overlong = 0, responses = 0;  // of the dump, against the share in the metrics
  std::istringstream dump(scratch::read(root("qwen3_32b_fsdp2") / "rollouts" / "2.jsonl"));
  for (std::string line; std::getline(dump, line); ++responses) {
    const auto row = nlohmann::json::parse(line);
    EXPECT_EQ(row.at("overlong").get<bool>(), row.at("overlong_reward").get<double>() < 0);
    overlong += row.at("overlong").get<bool>();
  }
  EXPECT_EQ(responses, 12);
  EXPECT_DOUBLE_EQ(last("qwen3_32b_fsdp2", "reward/overlong"), overlong / responses);
  EXPECT_FALSE(weights(root("qwen3_32b_fsdp2"), 2).empty());

  r = published("qwen3_235b_megatron", {"actor_rollout_ref.rollout.max_model_len=134", "reward_model.max_resp_len=6"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.out.find("dist_checkpointing_path is not read"), std::string::npos);
  EXPECT_NE(r.out.find("step:2 - "), std::string::npos) << r.out;
}

TEST_F(dapo_trainer, waiting_groups_survive_a_resume_to_the_bit) {
  const arguments six{"data.gen_batch_size=6"};
  train("whole", six);
  EXPECT_TRUE(fs::exists(root("whole") / "global_step_2" / "surplus.cbor"));
  EXPECT_GE(last("whole", "train/num_gen_batches"), 0);
  train("parts", six + arguments{"trainer.total_training_steps=2"});
  train("parts", six);
  EXPECT_TRUE(weights(root("whole"), 4) == weights(root("parts"), 4));
  EXPECT_TRUE(moments(root("whole"), 4) == moments(root("parts"), 4));
  EXPECT_EQ(rows(root("whole")), rows(root("parts")));

  train("thrown_away", six + arguments{"rlcore.keep_surplus=False"});
  EXPECT_FALSE(fs::exists(root("thrown_away") / "global_step_2" / "surplus.cbor"));
  EXPECT_EQ(last("thrown_away", "train/earlier_groups"), 0);
}

TEST_F(dapo_trainer, a_stop_is_clean_and_can_be_gone_on_from) {
  const arguments epochs{"trainer.total_training_steps=null", "trainer.save_freq=-1"};
  const program::result r = train("stopped", epochs + arguments{"trainer.total_epochs=1"});
  EXPECT_NE(r.out.find("stopped     before step "), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("the data are used up"), std::string::npos);
  const std::size_t steps = rows(root("stopped")).size();
  ASSERT_GE(steps, 1u);
  EXPECT_FALSE(weights(root("stopped"), static_cast<int>(steps)).empty());  // though trainer.save_freq=-1
  train("stopped", epochs + arguments{"trainer.total_epochs=2"});
  train("never", epochs + arguments{"trainer.total_epochs=2"});
  const std::size_t all = rows(root("never")).size();
  EXPECT_GT(all, steps);
  EXPECT_EQ(rows(root("stopped")), rows(root("never")));
  EXPECT_TRUE(weights(root("stopped"), static_cast<int>(all)) == weights(root("never"), static_cast<int>(all)));

  const program::result limit =
      train("limit", {"data.train_batch_size=12", "algorithm.filter_groups.max_num_gen_batches=2"});
  EXPECT_NE(limit.out.find("stopped     before step 1: 2 rounds of 4 prompts are the limit"), std::string::npos)
      << limit.out;
  EXPECT_FALSE(fs::exists(root("limit") / "global_step_0"));
}

TEST_F(dapo_trainer, kl_in_the_reward_and_the_filter) {
  train("kl", {"algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.kl_coef=0.1",
               "algorithm.filter_groups.metric=seq_final_reward", "trainer.total_training_steps=2"});
  EXPECT_EQ(last("kl", "train/groups_all_wrong") > 0 && last("kl", "train/num_gen_batches") <= 1, true)
      << "rewards with a KL in them always differ";
}

TEST_F(dapo_trainer, sources_of_rewards) {
  train("command",
        {"rlcore.reward_command=\"while read -r a; do echo 0.5; done\"", "algorithm.filter_groups.enable=False"});
  EXPECT_EQ(last("command", "critic/score/min"), 0.5);
  refused({"rlcore.reward_command=exit 3"}, "ended (exit code 3) before it answered for response 1");
  refused({"custom_reward_function.path=" + (place / "nosuch.py").string()}, "no such file");
  scratch::write(place / "reward.py", "def compute_score(*values, **more):\n    return 0.0\n");
  refused({"custom_reward_function.path=" + (place / "reward.py").string(),
           "custom_reward_function.reward_kwargs={of: \"\xff\"}"},
          "reward_kwargs hold a text that is not valid UTF-8");
  refused({"reward_model.enable=True", "reward_model.model.path=" + files.model.string()}, "no reward model");
  refused({"reward_model.overlong_buffer.enable=True", "reward_model.overlong_buffer.len=7"}, "from 1 to");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
