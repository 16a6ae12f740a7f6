// build/bin/grpo_trainer: what must not show in a result, and resuming to the same bits.

#include "grpo_trainer.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "support/kill.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;
using trainer_bits = grpo::trainer_test;

/// Everything that the objective can contain.
const arguments variants[] = {
    {},
    {"actor_rollout_ref.actor.use_kl_loss=True", "actor_rollout_ref.actor.kl_loss_coef=0.1",
     "actor_rollout_ref.actor.entropy_coeff=0.01", "actor_rollout_ref.actor.ppo_epochs=2",
     "actor_rollout_ref.actor.shuffle=True", "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"},
    {"algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.kl_coef=0.1",
     "actor_rollout_ref.actor.ppo_epochs=2", "actor_rollout_ref.rollout.temperature=0.7",
     "actor_rollout_ref.rollout.top_p=0.95", "actor_rollout_ref.rollout.repetition_penalty=1.1",
     "actor_rollout_ref.rollout.min_p=0.001"},
    {"rlcore.compute=bfloat16", "actor_rollout_ref.actor.ppo_epochs=2"},
};

TEST_F(trainer_bits, rewards_differ_and_weights_move) {
  train("a");
  EXPECT_FALSE(weights(root("a"), 2) == weights(root("a"), 4));
  EXPECT_FALSE(weights(root("a"), 2) == scratch::read(files.model / "model.safetensors"));
  double largest = 0, smallest = 1;
  int moved = 0;
  for (const std::string& row : rows(root("a"))) {
    const auto json = nlohmann::json::parse(row);
    largest = std::max(largest, json["critic/rewards/max"].get<double>());
    smallest = std::min(smallest, json["critic/rewards/mean"].get<double>());
    moved += json["actor/grad_norm"].get<double>() > 0;
  }
  EXPECT_GE(moved, 2);
  EXPECT_EQ(largest, 1);
  EXPECT_LT(smallest, 1);
  train("other_seed", {"rlcore.seed=2"});
  EXPECT_FALSE(weights(root("a"), 4) == weights(root("other_seed"), 4));
}

/// What the rollout recorded and what the trainer computes: the same numbers, unless the rollout's weights differ.
TEST_F(trainer_bits, recomputed_log_probs_differ_only_from_int8_rollouts) {
  train("same", {"rlcore.recompute_old_log_prob=True"});
  train("int8", {"rlcore.rollout_weights=int8"});
  for (const std::string name : {"same", "int8"}) {
    int steps = 0;
    std::istringstream lines(scratch::read(root(name) / "metrics.jsonl"));
    for (std::string row; std::getline(lines, row);) {
      const auto json = nlohmann::json::parse(row);
      ++steps;
      EXPECT_GT(json.at("timing_s/old_log_prob").get<double>(), 0);
      const auto difference = [&](const char* what) {
        return json.at(std::string("training/rollout_probs_diff_") + what).get<double>();
      };
      if (name == "same") {
        EXPECT_EQ(difference("max"), 0);
      } else {
        EXPECT_GT(difference("max"), 0);
        EXPECT_LT(difference("mean"), 0.01);
      }
    }
    EXPECT_GE(steps, 4);
  }
}

/// Sampling, scoring and updates: whatever the processor has, weights, moments and metrics are those of the plainest
/// set.
TEST_F(trainer_bits, instruction_sets_do_not_show) {
  for (std::size_t i = 0; i < std::size(variants); ++i) {
    std::string first;
    const bool bfloat16 = !variants[i].empty() && variants[i].front() == "rlcore.compute=bfloat16";
    for (const auto* set : rlcore::cpu_kernels::available()) {
      const std::string name = "variant" + std::to_string(i) + set->name;
      // This one takes subnormal numbers for 0 in products of bf16.
      if (std::string(set->name) == "avx512_bf16" && bfloat16) continue;
      train(name, variants[i] + arguments{"rlcore.instruction_set=" + std::string(set->name)});
      if (first.empty())
        first = name;
      else
        expect_same(first, name);
    }
  }
}

TEST_F(trainer_bits, threads_batching_and_memory_do_not_show) {
  const std::string actor = "actor_rollout_ref.actor.", rollout = "actor_rollout_ref.rollout.";
  const arguments ways[] = {
      {"rlcore.threads=2"},
      {actor + "ppo_micro_batch_size_per_gpu=1", "rlcore.threads=2"},
      {actor + "ppo_micro_batch_size_per_gpu=7"},
      {actor + "ppo_micro_batch_size_per_gpu=100", "rlcore.max_decode_batch=1"},
      {actor + "use_dynamic_bsz=True", actor + "ppo_max_token_len_per_gpu=150"},
      {"rlcore.max_decode_batch=5", rollout + "enable_chunked_prefill=False", rollout + "max_num_batched_tokens=16"},
      {"rlcore.max_decode_batch=64", rollout + "log_prob_micro_batch_size_per_gpu=1",
       "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=1"},
      {"rlcore.recompute_old_log_prob=True", rollout + "log_prob_micro_batch_size_per_gpu=5", "rlcore.threads=2"},
      {rollout + "enable_prefix_caching=False", rollout + "gpu_memory_utilization=0.0001"},
      {rollout + "max_num_seqs=2", rollout + "gpu_memory_utilization=0.0001", "rlcore.threads=2"},
      {"actor_rollout_ref.model.enable_gradient_checkpointing=False", "rlcore.logits_memory_mb=1"}};
  for (std::size_t v = 0; v < std::size(variants); ++v) {
    const std::string base = "base" + std::to_string(v);
    train(base, variants[v]);
    for (std::size_t w = 0; w < std::size(ways); ++w) {
      SCOPED_TRACE(base + " " + ways[w][0]);
      const std::string name = base + "_" + std::to_string(w);
      train(name, variants[v] + ways[w]);
      expect_same(base, name);
    }
  }
}

/// The log-probs recorded while sampling are the old ones; a pass that computes them again finds the same bits.
TEST_F(trainer_bits, old_log_probs_are_recorded_or_computed_again) {
  const std::string rollout = "actor_rollout_ref.rollout.";
  const arguments off_policy{"actor_rollout_ref.actor.ppo_epochs=2", rollout + "top_k=20", rollout + "min_p=0.01",
                             rollout + "repetition_penalty=1.2", rollout + "presence_penalty=0.5"};
  train("recorded", off_policy);
  train("computed", off_policy + arguments{"rlcore.recompute_old_log_prob=True"});
  expect_same("recorded", "computed");
  const auto seconds = [&](const std::string& name) {
    std::istringstream file(scratch::read(root(name) / "metrics.jsonl"));
    std::vector<double> all;
    for (std::string line; std::getline(file, line);)
      all.push_back(nlohmann::json::parse(line).at("timing_s/old_log_prob").get<double>());
    return all;
  };
  EXPECT_EQ(seconds("recorded"), std::vector<double>(4));
  for (const double s : seconds("computed")) EXPECT_GT(s, 0);
}

TEST_F(trainer_bits, resumed_run_equals_an_uninterrupted_one) {
  for (std::size_t v = 0; v < std::size(variants); ++v) {
    const std::string whole = "whole" + std::to_string(v), cut = "cut" + std::to_string(v);
    const arguments fixed = variants[v] + arguments{"actor_rollout_ref.actor.optim.lr_warmup_steps=3"};
    train(whole, fixed);
    train(cut, fixed + arguments{"trainer.total_training_steps=2"});
    EXPECT_FALSE(fs::exists(actor(root(cut), 4)));
    const auto second = train(cut, fixed);
    EXPECT_NE(second.out.find("resumed after step 2"), std::string::npos) << second.out;
    expect_same(whole, cut);
    const std::string folder = "trainer.resume_from_path=" + (root(whole) / "global_step_2").string();
    const std::string other = "other" + std::to_string(v);
    train(other, fixed + arguments{"trainer.resume_mode=resume_path", folder});
    EXPECT_TRUE(weights(root(other), 4) == weights(root(whole), 4));
    const auto third = train(cut, fixed);
    EXPECT_NE(third.out.find("note: all 4 steps are done; a larger trainer.total_epochs or "), std::string::npos)
        << third.out;
    expect_same(whole, cut);
  }
}

/// Each step has one row, also where both a validation before training and one that was due fall on it.
TEST_F(trainer_bits, resumed_run_does_not_log_a_step_twice) {
  const arguments validated{"trainer.val_before_train=True", "trainer.logger=[file,tensorboard]"};
  train("whole", validated);
  train("cut", validated + arguments{"trainer.total_training_steps=2"});
  train("cut", validated);
  expect_same("whole", "cut");
  EXPECT_EQ(rows(root("cut")).size(), 5u);
  train("cut", validated + arguments{"trainer.val_only=True"});
  EXPECT_EQ(rows(root("whole")), rows(root("cut")));
  EXPECT_TRUE(fs::exists(root("cut") / "tensorboard"));
}

TEST_F(trainer_bits, resuming_takes_the_same_seed_and_the_command_lines_coefficient) {
  train("run", {"trainer.total_training_steps=2"});
  refused({"rlcore.seed=5"}, "holds a run with other settings: rlcore.seed was 1 and is 5", "run");
  const arguments from{"trainer.resume_mode=resume_path",
                       "trainer.resume_from_path=" + (root("run") / "global_step_2").string()};
  refused(from + arguments{"rlcore.seed=5"}, "was saved by a run with rlcore.seed=1, this run has rlcore.seed=5",
          "other");
  // The checkpoint of a run without KL in the reward knows no coefficient.
  const auto r = train("other", from + arguments{"algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.kl_coef=0.25"});
  EXPECT_NE(r.out.find("actor/reward_kl_penalty_coeff:0.25"), std::string::npos) << r.out;
  train("run", {"trainer.resume_mode=disable", "rlcore.seed=5"});
}

TEST_F(trainer_bits, killed_run_resumes_to_the_same_bits) {
  const arguments longer{"trainer.total_training_steps=60", "trainer.save_freq=10", "trainer.test_freq=-1"};
  train("whole", longer);
  ASSERT_TRUE(program::kill_in(root("between"), actor(root("between"), 60), "grpo_trainer",
                               settings(files, root("between")) + longer,
                               [&] { return fs::exists(root("between") / "latest_checkpointed_iteration.txt"); }));
  train("between", longer);
  expect_same("whole", "between", 60);

  // While the second checkpoint is being written, if the poll is quick enough to meet it.
  ASSERT_TRUE(program::kill_in(root("inside"), actor(root("inside"), 60), "grpo_trainer",
                               settings(files, root("inside")) + longer, [&] {
                                 std::error_code gone;
                                 for (const auto& entry : fs::directory_iterator(root("inside"), gone))
                                   if (entry.path().filename().string().starts_with("global_step_20")) return true;
                                 return false;
                               }));
  EXPECT_EQ(scratch::read(root("inside") / "latest_checkpointed_iteration.txt").substr(0, 1) == "1" ||
                fs::exists(actor(root("inside"), 20)),
            true);
  train("inside", longer);
  expect_same("whole", "inside", 60);
  for (const auto& entry : fs::directory_iterator(root("inside")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp-"), std::string::npos) << entry.path();
}

TEST_F(trainer_bits, full_disk_while_saving_leaves_the_old_checkpoint) {
  train("whole");
  train("full", {"trainer.total_training_steps=2"});
  const auto before = program::snapshot(root("full") / "global_step_2");
  // 150 KiB: enough for the weights, not for the moments.
  const auto r = program::run("grpo_trainer", settings(files, root("full")), "trap '' XFSZ; ulimit -f 300;");
  EXPECT_EQ(r.code, 1);
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  EXPECT_NE(r.err.find("optim.safetensors"), std::string::npos) << r.err;
  EXPECT_NE(r.err.find("File too large"), std::string::npos) << r.err;
  EXPECT_TRUE(program::snapshot(root("full") / "global_step_2") == before);
  EXPECT_EQ(scratch::read(root("full") / "latest_checkpointed_iteration.txt"), "2");
  for (const auto& entry : fs::directory_iterator(root("full")))
    EXPECT_FALSE(entry.path().filename().string().starts_with("global_step_4")) << entry.path();
  train("full");
  expect_same("whole", "full");
}

TEST_F(trainer_bits, keeps_as_many_checkpoints_as_asked) {
  train("run", {"trainer.save_freq=1", "trainer.max_actor_ckpt_to_keep=2"});
  EXPECT_FALSE(fs::exists(actor(root("run"), 2)));
  EXPECT_TRUE(fs::exists(actor(root("run"), 3)));
  EXPECT_TRUE(fs::exists(actor(root("run"), 4)));
}

}  // namespace
}  // namespace RLCORE_TEST_ID
