// ppo_trainer, reinforce_plus_plus_trainer and the estimators and losses of grpo_trainer, on a model of a few
// kilobytes.
#include <cstdlib>
#include <set>

#include "grpo_trainer.hpp"
#include "rlcore/telemetry/metric_names.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class policy_trainers : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"grpo_trainer", "ppo_trainer", "reinforce_plus_plus_trainer"})
      if (!fs::exists(program::path_of(name))) GTEST_SKIP() << "no " << program::path_of(name);
    files = tiny_model::make(place.path());
  }
  fs::path root(const std::string& name) const { return place / name; }

  /// Two steps; what is given later wins.
  program::result train(const std::string& trainer, const std::string& name, const arguments& more) {
    SCOPED_TRACE(name);
    arguments all = settings(files, root(name)) + arguments{"trainer.total_training_steps=2", "trainer.test_freq=-1"};
    std::erase(all, "algorithm.adv_estimator=grpo");
    const program::result r = program::run(trainer, all + more);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return r;
  }
  void refused(const std::string& trainer, const arguments& all, const std::string& part) {
    const program::result r = program::run(trainer, all);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
  std::string bytes(const std::string& name, const std::string& file, int step = 2) const {
    return scratch::read(root(name) / ("global_step_" + std::to_string(step)) / file);
  }
  nlohmann::json row(const std::string& name, std::size_t i) const {
    return nlohmann::json::parse(rows(root(name)).at(i));
  }

  const scratch::folder place;
  tiny_model::files files;
};

TEST_F(policy_trainers, every_estimator_resumes_to_the_same_bits) {
  for (const std::string estimator :
       {"gae", "reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "rloo", "opo", "grpo_passk", "gpg",
        "grpo_vectorized", "rloo_vectorized", "optimal_token_baseline", "tir_optimal_token_baseline", "gigpo"}) {
    SCOPED_TRACE(estimator);
    const arguments chosen{"algorithm.adv_estimator=" + estimator, "algorithm.use_kl_in_reward=True",
                           "algorithm.kl_ctrl.kl_coef=0.1", "algorithm.gamma=0.95", "algorithm.lam=0.9"};
    train("grpo_trainer", estimator, chosen + arguments{"trainer.save_freq=1"});
    const std::string half = estimator + "_resumed";
    train("grpo_trainer", half,
          chosen + arguments{"trainer.resume_mode=resume_path",
                             "trainer.resume_from_path=" + (root(estimator) / "global_step_1").string()});
    EXPECT_FALSE(weights(root(estimator), 2).empty());
    EXPECT_TRUE(weights(root(estimator), 2) == weights(root(half), 2)) << "other weights";
    EXPECT_TRUE(moments(root(estimator), 2) == moments(root(half), 2)) << "other moments";
    EXPECT_EQ(rows(root(estimator)).at(1), rows(root(half)).at(0));
    const nlohmann::json last = row(estimator, 1);
    for (const auto& [name, x] : last.items())
      EXPECT_TRUE(name == "step" || rlcore::train::is_defined_metric(name)) << name;
    if (estimator != "gae") continue;
    for (const char* file : {"critic/huggingface/model.safetensors", "critic/optim.safetensors"}) {
      EXPECT_FALSE(bytes(estimator, file).empty());
      EXPECT_TRUE(bytes(estimator, file) == bytes(half, file)) << file;
    }
  }
}

TEST_F(policy_trainers, every_loss_mode_trains) {
  std::set<std::string> different;
  for (const std::string mode :
       {"vanilla", "gspo", "gpg", "clip_cov", "kl_cov", "geo_mean", "sapo", "cispo", "dppo_tv", "dppo_kl", "dro"}) {
    train(
        "grpo_trainer", mode,
        {"actor_rollout_ref.actor.policy_loss.loss_mode=" + mode, "actor_rollout_ref.actor.policy_loss.clip_cov_lb=-1",
         "actor_rollout_ref.actor.policy_loss.clip_cov_ratio=0.2", "actor_rollout_ref.actor.policy_loss.dro_beta=0.1",
         "actor_rollout_ref.actor.ppo_epochs=2", "actor_rollout_ref.actor.entropy_coeff=0.01", "trainer.save_freq=-1",
         "trainer.total_training_steps=1"});
    different.insert(row(mode, 0).at("actor/grad_norm").dump());
  }
  EXPECT_EQ(different.size(), 10u);  // the trust regions of dppo_tv and dppo_kl bound nothing in this step
}

TEST_F(policy_trainers, ppo_trains_a_critic) {
  const program::result r = train(
      "ppo_trainer", "ppo",
      {"trainer.critic_warmup=2", "trainer.save_freq=1", "trainer.max_critic_ckpt_to_keep=1", "critic.optim.lr=1e-2"});
  EXPECT_NE(r.out.find("the actor's model, since critic.model.path is not given"), std::string::npos) << r.out;
  std::vector<std::string> steps;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("step:")) steps.push_back(line);
  ASSERT_EQ(steps.size(), 2u) << r.out;
  for (const char* name :
       {"critic/values/mean", "critic/values/max", "critic/values/min", "critic/vf_explained_var", "critic/vf_loss",
        "critic/vf_clipfrac", "critic/vpred_mean", "critic/grad_norm", "critic/lr", "critic/returns/mean",
        "timing_s/values", "timing_s/update_critic", "timing_per_token_ms/values", "timing_per_token_ms/update_critic",
        "actor/pg_loss", "actor/ppo_kl", "actor/entropy", "critic/advantages/mean", "timing_s/update_actor"}) {
    EXPECT_NE(steps[1].find(" - " + std::string(name) + ":"), std::string::npos) << name;
    const bool of_actor = std::string(name).starts_with("actor/p") || std::string(name).ends_with("update_actor");
    EXPECT_EQ(steps[0].find(" - " + std::string(name) + ":") == std::string::npos, of_actor) << name;
  }
  EXPECT_TRUE(weights(root("ppo"), 1) == scratch::read(files.model / "model.safetensors")) << "the actor was to wait";
  EXPECT_FALSE(weights(root("ppo"), 1) == weights(root("ppo"), 2));
  EXPECT_FALSE(fs::exists(root("ppo") / "global_step_1" / "critic"));  // only the newest is kept
  const auto config = nlohmann::json::parse(bytes("ppo", "critic/huggingface/config.json"));
  EXPECT_EQ(config.at("architectures").at(0), "Qwen2ForSequenceClassification");
  // A critic saved by one run starts another.
  const fs::path saved = root("ppo") / "global_step_2" / "critic" / "huggingface";
  train("ppo_trainer", "again", {"critic.model.path=" + saved.string(), "trainer.total_training_steps=1"});
}

TEST_F(policy_trainers, micro_batches_and_threads_leave_no_trace_in_the_critic) {
  train("ppo_trainer", "a", {"critic.ppo_epochs=2", "critic.shuffle=True"});
  train("ppo_trainer", "b",
        {"critic.ppo_epochs=2", "critic.shuffle=True", "critic.ppo_micro_batch_size_per_gpu=1", "rlcore.threads=3",
         "critic.forward_micro_batch_size_per_gpu=5", "critic.model.enable_gradient_checkpointing=False"});
  EXPECT_TRUE(bytes("a", "critic/huggingface/model.safetensors") == bytes("b", "critic/huggingface/model.safetensors"));
  EXPECT_TRUE(weights(root("a"), 2) == weights(root("b"), 2));
}

/// The flags of train_ppo_ray and the keys that they stand for: one run.
TEST_F(policy_trainers, openrlhf_flags_are_keys) {
  const arguments flags{"--pretrain",
                        files.model.string(),
                        "--prompt_data",
                        files.train.string(),
                        "--eval_dataset",
                        files.val.string(),
                        "--input_key",
                        "prompt",
                        "--apply_chat_template",
                        "--rollout_batch_size=4",
                        "--n_samples_per_prompt",
                        "4",
                        "--train_batch_size",
                        "8",
                        "--micro_train_batch_size",
                        "2",
                        "--prompt_max_len",
                        "128",
                        "--generate_max_len",
                        "6",
                        "--actor_learning_rate",
                        "3e-3",
                        "--critic_learning_rate",
                        "1e-3",
                        "--init_kl_coef",
                        "0.05",
                        "--adam_betas",
                        "0.9",
                        "0.9",
                        "--lr_warmup_ratio=0",
                        "--flash_attn",
                        "--zero_stage",
                        "3",
                        "--eval_temperature=0",
                        "--eval_n_samples_per_prompt=1",
                        "trainer.total_training_steps=2",
                        "rlcore.threads=1"};
  const arguments keys{"data.train_batch_size=4",
                       "actor_rollout_ref.rollout.n=4",
                       "actor_rollout_ref.actor.ppo_mini_batch_size=2",
                       "actor_rollout_ref.actor.clip_ratio_c=1e30",
                       "actor_rollout_ref.actor.optim.betas=[0.9,0.9]",
                       "actor_rollout_ref.actor.optim.weight_decay=0",
                       "actor_rollout_ref.actor.optim.warmup_style=cosine_with_min_lr",
                       "actor_rollout_ref.actor.optim.min_lr_ratio=0.1",
                       "algorithm.use_kl_in_reward=True",
                       "algorithm.kl_ctrl.kl_coef=0.05",
                       "critic.optim.lr=1e-3",
                       "critic.optim.betas=[0.9,0.9]",
                       "critic.optim.weight_decay=0",
                       "critic.optim.warmup_style=cosine_with_min_lr",
                       "critic.optim.min_lr_ratio=0.1",
                       "critic.cliprange_value=0.2",
                       "rlcore.advantages=openrlhf",
                       "rlcore.lr_per_update=True",
                       "rlcore.seed=42"};
  const auto same = [&](const std::string& trainer, const std::string& name, const arguments& by_flags,
                        const arguments& by_keys) {
    SCOPED_TRACE(name);
    const program::result r = program::run(
        trainer, flags + arguments{"--ckpt_path", root(name).string(), "--save_path", (root(name) / "model").string()} +
                     by_flags);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find("without effect on this device"), std::string::npos) << r.out;
    train(trainer, name + "_keys", keys + by_keys);
    EXPECT_FALSE(weights(root(name), 2).empty());
    EXPECT_TRUE(weights(root(name), 2) == weights(root(name + "_keys"), 2)) << "other weights";
    EXPECT_EQ(rows(root(name)), rows(root(name + "_keys")));
    EXPECT_GT(row(name, 0).at("actor/grad_norm").get<double>() + row(name, 1).at("actor/grad_norm").get<double>(), 0);
  };
  fs::create_directories(place / "hub" / "prompts-v0.1");  // a data set of the hub, loaded to a folder of its name
  fs::copy(files.train, place / "hub" / "prompts-v0.1" / "train-00000-of-00001.jsonl");
  same("reinforce_plus_plus_trainer", "reinforce", {"--prompt_data", (place / "hub" / "prompts-v0.1").string()}, {});
  same("ppo_trainer", "gae", {"--lambd", "0.9"}, {"algorithm.lam=0.9"});
  same("reinforce_plus_plus_trainer", "group_norm", {"--advantage_estimator", "group_norm"},
       {"algorithm.adv_estimator=grpo"});
  same("ppo_trainer", "reinforce_baseline", {"--advantage_estimator=reinforce_baseline"},
       {"algorithm.adv_estimator=reinforce_plus_plus_baseline"});
  refused(
      "ppo_trainer",
      flags +
          arguments{"--ckpt_path", root("gae").string(), "--lambd", "0.9", "--load_checkpoint", "--temperature", "0.9"},
      "holds a run with other settings: --temperature was 1.0 and is 0.9; go on with the former ones, or begin anew "
      "without --load_checkpoint");
}

TEST_F(policy_trainers, refusals_are_one_line) {
  const arguments bare = settings(files, root("refused"));
  refused("ppo_trainer", bare + arguments{"algorithm.adv_estimator=gae", "critic.enable=False"}, "reads the values");
  refused("ppo_trainer", bare + arguments{"critic.optim.betas=[0.9,1]", "algorithm.adv_estimator=gae"}, "two numbers");
  refused("ppo_trainer", {"--pretrain", "x", "--prompt_data", "y"}, "--apply_chat_template is missing");
  refused("ppo_trainer", {"--advantage_estimater", "gae"}, "did you mean '--advantage_estimator'");
  refused("ppo_trainer", {"--advantage_estimator", "reinforc"}, "did you mean");
  refused("ppo_trainer", {"--remote_rm_url", "http://localhost:5000"}, "HTTP is not asked");
  refused("ppo_trainer", {"--apply_chat_template", "--advantage_estimator", "rloo"}, "expected 2 or more");
  refused("ppo_trainer", {"--apply_chat_template", "--n_samples_per_prompt", "3"}, "multiple of");
  refused("ppo_trainer", {"--enable_ema"}, "not in this build yet");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
