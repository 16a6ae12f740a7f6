// build/bin/grpo_trainer with rlcore.replay: stored responses give the bits of the run that stored them.
#include <cmath>

#include "grpo_trainer.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace grpo;

class replay_test : public trainer_test {
 protected:
  std::string stored(const std::string& name) const { return (root(name) / "rollouts").string(); }
  /// Runs and keeps the responses.
  void record(const std::string& name, const arguments& more = {}) {
    train(name, more + arguments{"trainer.rollout_data_dir=" + stored(name)});
  }
  /// Every line of every step, changed by `edit`, in one file.
  template <class Edit>
  std::string edited(const std::string& run, const std::string& name, Edit&& edit) {
    std::string all;
    for (int step = 1; step <= 4; ++step) {
      std::istringstream lines(scratch::read(fs::path(stored(run)) / (std::to_string(step) + ".jsonl")));
      for (std::string line; std::getline(lines, line);) {
        auto json = nlohmann::ordered_json::parse(line);
        if (edit(json)) all += json.dump() + "\n";
      }
    }
    scratch::write(place / name, all);
    return "rlcore.replay=" + (place / name).string();
  }
  std::vector<double> column(const std::string& run, const std::string& name) const {
    std::vector<double> all;
    std::istringstream lines(scratch::read(root(run) / "metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.contains(name)) all.push_back(json[name].is_null() ? std::nan("") : json[name].get<double>());
    }
    return all;
  }
};

TEST_F(replay_test, gives_the_bits_of_the_recorded_run) {
  const arguments everything{"actor_rollout_ref.actor.use_kl_loss=True",   "actor_rollout_ref.actor.kl_loss_coef=0.1",
                             "actor_rollout_ref.actor.entropy_coeff=0.01", "actor_rollout_ref.actor.ppo_epochs=2",
                             "actor_rollout_ref.actor.shuffle=True",       "actor_rollout_ref.rollout.temperature=0.8"};
  record("run", everything);
  const auto r = train("replayed", everything + arguments{"rlcore.replay=" + stored("run")});
  EXPECT_NE(r.out.find("replay 48 responses from "), std::string::npos) << r.out;
  expect_same("run", "replayed");
  EXPECT_EQ(column("replayed", "training/rollout_probs_diff_max"), std::vector<double>(4));

  // One file of all steps, half of it first and the rest in a second run; with what was replayed stored once more.
  const std::string file = edited("run", "all.jsonl", [](auto&) { return true; });
  train("cut", everything + arguments{"--replay", file.substr(file.find('=') + 1), "trainer.total_training_steps=2"});
  train("cut", everything + arguments{file, "trainer.rollout_data_dir=" + (place / "again").string()});
  expect_same("run", "cut");
  for (const char* step : {"3.jsonl", "4.jsonl"})
    EXPECT_EQ(scratch::read(place / "again" / step), scratch::read(fs::path(stored("run")) / step));
}

/// Dynamic sampling keeps groups for later steps: their old log-probs are those of the policy that sampled them.
TEST_F(replay_test, gives_the_bits_of_dynamic_sampling) {
  if (!fs::exists(program::path_of("dapo_trainer"))) GTEST_SKIP() << "no dapo_trainer";
  const arguments all = settings(files, root("dapo")) + arguments{"algorithm.filter_groups.enable=True",
                                                                  "algorithm.filter_groups.metric=acc",
                                                                  "algorithm.filter_groups.max_num_gen_batches=0",
                                                                  "data.gen_batch_size=8",
                                                                  "data.train_batch_size=2",
                                                                  "trainer.total_epochs=100",
                                                                  "actor_rollout_ref.rollout.n=8",
                                                                  "actor_rollout_ref.actor.ppo_epochs=2"};
  const auto first = program::run("dapo_trainer", all + arguments{"trainer.rollout_data_dir=" + stored("dapo")});
  ASSERT_EQ(first.code, 0) << first.err;
  const auto second =
      program::run("dapo_trainer",
                   all + arguments{"--replay", stored("dapo"), "trainer.default_local_dir=" + root("again").string()});
  ASSERT_EQ(second.code, 0) << second.err;
  double kept = 0;
  for (const double x : column("dapo", "train/earlier_groups")) kept += x;
  EXPECT_GT(kept, 0) << "no group was kept for a later step";
  EXPECT_TRUE(weights(root("dapo"), 4) == weights(root("again"), 4));
  EXPECT_TRUE(moments(root("dapo"), 4) == moments(root("again"), 4));
  for (const char* name : {"critic/rewards/mean", "actor/pg_loss", "actor/entropy", "actor/ppo_kl", "actor/grad_norm"})
    EXPECT_EQ(column("dapo", name), column("again", name)) << name;
}

/// Greedy baselines, a KL that adapts, a critic: what is computed from the responses comes back.
TEST_F(replay_test, gives_the_bits_of_other_estimators) {
  const arguments ways[] = {{"algorithm.adv_estimator=remax"},
                            {"algorithm.adv_estimator=reinforce_plus_plus", "algorithm.use_kl_in_reward=True",
                             "algorithm.kl_ctrl.type=adaptive", "algorithm.kl_ctrl.horizon=100"},
                            {"algorithm.adv_estimator=gae", "critic.model.path=" + files.model.string(),
                             "critic.optim.lr=1e-3", "critic.ppo_micro_batch_size_per_gpu=3"}};
  for (std::size_t w = 0; w < std::size(ways); ++w) {
    const std::string program = w < 2 ? "grpo_trainer" : "ppo_trainer", name = "way" + std::to_string(w);
    if (!fs::exists(program::path_of(program))) continue;
    const auto run = [&](const std::string& to, const arguments& more) {
      const auto r = program::run(program, settings(files, root(to)) + ways[w] + more);
      EXPECT_EQ(r.code, 0) << r.err;
    };
    run(name, {"trainer.rollout_data_dir=" + stored(name)});
    run(name + "_again", {"--replay", stored(name)});
    expect_same(name, name + "_again");
  }
}

/// Two instruction sets: the same responses and rewards, and the same bits.
TEST_F(replay_test, compares_instruction_sets) {
  record("run", {"actor_rollout_ref.actor.ppo_epochs=2"});
  train("portable",
        {"actor_rollout_ref.actor.ppo_epochs=2", "rlcore.instruction_set=portable", "rlcore.replay=" + stored("run")});
  for (const char* name : {"critic/rewards/mean", "response_length/mean", "actor/entropy", "actor/grad_norm"}) {
    ASSERT_EQ(column("run", name).size(), 4u);
    EXPECT_EQ(column("run", name), column("portable", name)) << name;
  }
  for (const double d : column("portable", "training/rollout_probs_diff_max")) EXPECT_EQ(d, 0);
}

/// Two kinds of products: the same responses and rewards, other digits.
TEST_F(replay_test, compares_compute_types) {
  record("run", {"actor_rollout_ref.actor.ppo_epochs=2"});
  train("bfloat16",
        {"actor_rollout_ref.actor.ppo_epochs=2", "rlcore.compute=bfloat16", "rlcore.replay=" + stored("run")});
  EXPECT_EQ(column("run", "critic/rewards/mean"), column("bfloat16", "critic/rewards/mean"));
  EXPECT_EQ(column("run", "response_length/mean"), column("bfloat16", "response_length/mean"));
  const auto a = column("run", "actor/entropy"), b = column("bfloat16", "actor/entropy");
  ASSERT_EQ(a.size(), 4u);
  EXPECT_NE(a, b);
  for (const double d : column("bfloat16", "training/rollout_probs_diff_max")) {
    EXPECT_GT(d, 0);
    EXPECT_LT(d, 0.1);
  }
}

TEST_F(replay_test, takes_text_alone) {
  record("run");
  const std::string file = edited("run", "text.jsonl", [](auto& line) {
    for (const char* name : {"row", "sample", "prompt_ids", "response_ids", "log_probs"}) line.erase(name);
    return true;
  });
  const auto r = train("text", {file, "data.max_response_length=64"});  // random bytes are many tokens as text
  EXPECT_NE(r.out.find("note: 48 of them are text alone"), std::string::npos) << r.out;
  EXPECT_EQ(column("run", "critic/score/mean"), column("text", "critic/score/mean"));
  EXPECT_TRUE(column("text", "training/rollout_probs_diff_max").empty());
}

TEST_F(replay_test, refuses_what_does_not_fit) {
  record("run");
  const std::string folder = "rlcore.replay=" + stored("run");
  refused({"rlcore.replay=" + (place / "nosuch").string()}, "nosuch: cannot open");
  refused({folder, "trainer.total_training_steps=5"},
          "no responses of step 5; the run needs steps 1 to 5, stored are 1 to 4");
  refused({folder, "actor_rollout_ref.rollout.n=6"}, "has 12 responses; this run trains on 24 a step");
  refused({folder, "data.max_response_length=1"}, "data.max_response_length=1");
  refused({folder, "actor_rollout_ref.rollout.n=6", "data.train_batch_size=2"},
          "expected groups of rollout.n=6 responses");
  refused({folder, "data.train_files=" + files.val.string(), "data.train_batch_size=4"}, "of 5 in data.train_files");
  refused({folder, "trainer.rollout_data_dir=" + stored("run")}, "is where rlcore.replay");
  int count = 0;
  const auto with = [&](const char* name, nlohmann::ordered_json x) {
    return edited("run", "e" + std::to_string(++count), [&, first = true](auto& line) mutable {
      if (std::exchange(first, false)) x.is_null() ? void(line.erase(name)) : void(line[name] = x);
      return true;
    });
  };
  refused({with("row", 17)}, "line 1: ");
  refused({with("row", 99)}, "line 1: row 99 of 18 in data.train_files");
  refused({with("response_ids", {1, 2, 100000})}, "line 1: token 100000 is not in the vocabulary");
  for (const std::int64_t id : {std::int64_t{-1}, (std::int64_t{1} << 32) + 5})
    refused({with("response_ids", {id})}, "line 1: \"response_ids\" is no list of token ids");
  refused({with("response_ids", "text")}, "line 1: \"response_ids\" is no list of token ids");
  refused({with("log_probs", {0.5})}, "line 1: 1 log_probs of");
  refused({with("gts", "77")}, "line 1: \"gts\" is \"77\"");
  refused({with("sample", 1)}, "line 2: sample 1 of row");
  refused({with("sampled_step", 9)}, "line 1: \"sampled_step\" is 9; expected a step from 1 to 1");
  refused({with("step", nullptr)}, "line 1: no integer \"step\"");
  scratch::write(place / "torn.jsonl", scratch::read(fs::path(stored("run")) / "1.jsonl").substr(0, 700));
  refused({"rlcore.replay=" + (place / "torn.jsonl").string()}, "not valid JSON");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
