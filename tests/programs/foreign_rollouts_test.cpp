// Responses that another engine samples, and weights for what its policy differs.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "programs/tool_runs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace tool_runs_test;

const std::string correction = "algorithm.rollout_correction.";

class foreign_rollouts : public tool_runs {
 protected:
  static fs::path stored() {
    const fs::path folder = place->path() / "engine";
    if (!fs::exists(folder))
      train("engine_run", {"trainer.save_freq=3", "trainer.rollout_data_dir=" + folder.string()});
    return folder;
  }
  /// The stored responses with every line changed by f.
  template <class F>
  static fs::path changed(const std::string& name, F&& f) {
    return changed_lines(stored(), name, f);
  }
  static arguments replays(const fs::path& folder) {
    return {"rlcore.replay=" + folder.string(), "trainer.save_freq=3"};
  }
};

TEST_F(foreign_rollouts, are_awaited_step_by_step) {
  const fs::path from = stored(), to = place->path() / "arriving";
  fs::create_directories(to);
  std::thread engine([&] {
    for (int step = 1; step <= 3; ++step) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const std::string name = std::to_string(step) + ".jsonl";
      fs::copy(from / name, to / (name + ".part"));
      fs::rename(to / (name + ".part"), to / name);
    }
  });
  const program::result r = train("awaits", replays(to) + arguments{"rlcore.replay_wait_s=60"});
  engine.join();
  EXPECT_NE(r.out.find("as they come in "), std::string::npos) << r.out;
  EXPECT_TRUE(weights("engine_run") == weights("awaits"));
  EXPECT_EQ(program::metric_rows(root("awaits"))[2]["async/staleness"], 0);
}

TEST_F(foreign_rollouts, that_do_not_come_end_the_run) {
  const fs::path empty = place->path() / "empty";
  fs::create_directories(empty);
  const program::result r =
      program::run("grpo_trainer", settings("waits") + replays(empty) + arguments{"rlcore.replay_wait_s=0.2"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("1.jsonl has not come"), std::string::npos) << r.err;
  refused({"rlcore.replay_wait_s=3"}, "has an effect only with rlcore.replay");
  refused(replays(stored() / "1.jsonl") + arguments{"rlcore.replay_wait_s=3"}, "expected a folder");
}

TEST_F(foreign_rollouts, may_bring_their_scores) {
  train("own_scores", replays(stored()) + arguments{"rlcore.replay_scores=True"});
  EXPECT_TRUE(weights("engine_run") == weights("own_scores"));
  const fs::path turned = changed("turned", [](json& row) { row["score"] = 1 - row["score"].get<double>(); });
  train("turned_run", replays(turned) + arguments{"rlcore.replay_scores=True"});
  EXPECT_FALSE(weights("engine_run") == weights("turned_run"));
  const auto scores = [](const std::string& name) {
    return program::metric_rows(root(name))[0]["critic/score/mean"].get<double>();
  };
  EXPECT_DOUBLE_EQ(scores("turned_run"), 1 - scores("own_scores"));
  const fs::path unnumbered = changed("unnumbered", [](json& row) { row.erase("sample"); });
  train("unnumbered_run", replays(unnumbered) + arguments{"rlcore.replay_scores=True"});
  EXPECT_TRUE(weights("engine_run") == weights("unnumbered_run"));
  refused(replays(stored()) + arguments{"rlcore.replay_scores=True", "rlcore.reward_command=cat"},
          "leave out rlcore.reward_command");
  refused(replays(stored()) + arguments{"rlcore.replay_scores=True", "algorithm.adv_estimator=remax"},
          "nothing scores its greedy answers");
  const fs::path none = changed("none", [](json& row) { row["score"] = "good"; });
  refused(replays(none) + arguments{"rlcore.replay_scores=True"}, "\"score\" is \"good\"; expected a number");
  refused({"rlcore.replay_scores=True"}, "has an effect only with rlcore.replay");
}

TEST_F(foreign_rollouts, of_the_same_policy_have_weight_1) {
  stored();
  train("weighed", {"trainer.save_freq=3", correction + "rollout_is=token"});
  EXPECT_TRUE(weights("engine_run") == weights("weighed"));
  const auto row = program::metric_rows(root("weighed"))[1];
  for (const char* name : {"rollout_is_mean", "rollout_is_max", "rollout_is_min", "rollout_is_eff_sample_size"})
    EXPECT_EQ(row.at("rollout_corr/" + std::string(name)), 1) << name;
  EXPECT_EQ(row.at("rollout_corr/kl"), 0);
  train("kept",
        {"trainer.save_freq=3", correction + "rollout_rs=seq_mean_k3", correction + "rollout_rs_threshold=0.01"});
  EXPECT_TRUE(weights("engine_run") == weights("kept"));
  EXPECT_EQ(program::metric_rows(root("kept"))[1]["rollout_corr/rollout_rs_masked_fraction"], 0);
}

TEST_F(foreign_rollouts, of_another_policy_are_rejected) {
  double all = 0, first = 0;
  const arguments rule{correction + "rollout_rs=token_k1", correction + "rollout_rs_threshold=1.2"};
  const fs::path some = changed("some", [&](json& row) {
    all += 1;
    if (row["sample"] != 0) return;
    first += 1;
    for (json& x : row["log_probs"]) x = x.get<double>() - 0.25;
  });
  train("some_run", replays(some) + rule);
  EXPECT_FALSE(weights("engine_run") == weights("some_run"));
  const auto metrics = program::metric_rows(root("some_run"))[0];
  EXPECT_DOUBLE_EQ(metrics["rollout_corr/rollout_rs_seq_masked_fraction"].get<double>(), first / all);
  EXPECT_NEAR(metrics["rollout_corr/rollout_rs_token_k1_min"].get<double>(), -0.25, 1e-4);
  const fs::path none = changed("nothing_left", [](json& row) {
    for (json& x : row["log_probs"]) x = x.get<double>() - 0.25;
  });
  train("nothing_left_run", replays(none) + rule);
  const auto empty = program::metric_rows(root("nothing_left_run"))[0];
  EXPECT_EQ(empty["rollout_corr/rollout_rs_masked_fraction"], 1);
  EXPECT_EQ(empty["actor/pg_loss"], 0);
  EXPECT_EQ(empty["actor/grad_norm"], 0);
  const arguments critic{"algorithm.adv_estimator=gae", "algorithm.use_kl_in_reward=True", "critic.optim.lr=1e-2"};
  train("some_values_run", replays(some) + rule + critic);  // the first response of each group has no token left
  EXPECT_TRUE(program::metric_rows(root("some_values_run"))[0].contains("critic/values/mean"));
  train("no_values_run", replays(none) + rule + critic);
  const json numbers = program::metric_rows(root("no_values_run"))[0];
  for (const auto& [name, x] : numbers.items()) EXPECT_FALSE(x.is_null()) << name;  // a number that is not finite
}

TEST_F(foreign_rollouts, are_not_weighed_where_the_loss_is_no_multiple_of_the_advantage) {
  for (const char* mode : {"geo_mean", "kl_cov"})
    refused({correction + "rollout_is=token", "actor_rollout_ref.actor.policy_loss.loss_mode=" + std::string(mode)},
            "is not a multiple of the advantage");
  refused({correction + "rollout_is=token", "rlcore.recompute_old_log_prob=False"}, "leave one of them out");
}

TEST_F(foreign_rollouts, of_another_policy_are_weighed) {
  const fs::path other = changed("other", [](json& row) {
    for (json& x : row["log_probs"]) x = x.get<double>() - 0.25;
  });
  train("plain", replays(other));
  EXPECT_TRUE(weights("engine_run") == weights("plain"));  // the old log-probs are computed
  train("token", replays(other) + arguments{correction + "rollout_is=token"});
  EXPECT_FALSE(weights("engine_run") == weights("token"));
  EXPECT_NEAR(program::metric_rows(root("token"))[0]["rollout_corr/rollout_is_mean"].get<double>(), 1.2840254, 1e-4);
  train("sequence", replays(other) + arguments{correction + "rollout_is=sequence"});
  EXPECT_EQ(program::metric_rows(root("sequence"))[0]["rollout_corr/rollout_is_max"], 2);
  train("ahead", {"rlcore.async_depth=1", "trainer.save_freq=3", correction + "rollout_is=token"});
  EXPECT_NE(program::metric_rows(root("ahead"))[2]["rollout_corr/kl"], 0);
}

}  // namespace
}  // namespace RLCORE_TEST_ID
