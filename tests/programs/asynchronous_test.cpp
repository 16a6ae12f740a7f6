// Asynchronous training (async_training.*): one hash for ranks, layouts and resumes, and the synchronous run's where
// nothing is stale.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "programs/tool_runs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace tool_runs_test;

/// Without tools, and so hot that the lengths of responses differ; long ones get less reward.
const arguments hot{turns + "enable=False",
                    turns + "tool_config_path=null",
                    rollout + "temperature=5",
                    "data.max_response_length=128",
                    "reward_model.reward_manager=dapo",
                    "reward_model.overlong_buffer.enable=True",
                    "reward_model.overlong_buffer.len=120",
                    "reward_model.overlong_buffer.penalty_factor=1",
                    "trainer.save_freq=3"};
const arguments on_policy{"async_training.staleness_threshold=0", "async_training.trigger_parameter_sync_step=1"};
const arguments stale{"async_training.staleness_threshold=1", "async_training.trigger_parameter_sync_step=1",
                      "trainer.total_training_steps=5", "trainer.save_freq=5"};

class asynchronous_runs : public tool_runs {
 protected:
  /// The weights after five steps, which there must be.
  static std::string five(const std::string& name) {
    const std::string all = weights(name, 5);
    EXPECT_FALSE(all.empty()) << name;
    return all;
  }
  static fs::path stored() { return place->path() / "stored"; }
  static void SetUpTestSuite() {
    tool_runs::SetUpTestSuite();
    train("stale", hot + stale + arguments{"trainer.rollout_data_dir=" + stored().string()});
  }
  static void expect_as_stale(const std::string& name, const arguments& more) {
    SCOPED_TRACE(name);
    train(name, hot + stale + more);
    EXPECT_TRUE(five("stale") == five(name));
  }
  static double most(const std::string& name, const std::string& metric) {
    double largest = 0;
    for (const json& row : program::metric_rows(root(name)))
      largest = std::max(largest, std::abs(row.at(metric).get<double>()));
    return largest;
  }
};

TEST_F(asynchronous_runs, without_staleness_are_the_synchronous_run) {
  train("synchronous", hot);
  train("on_policy", hot + on_policy);
  train("awaited", hot + on_policy + arguments{"async_training.partial_rollout=False"});
  ASSERT_FALSE(weights("synchronous").empty());
  EXPECT_TRUE(weights("synchronous") == weights("on_policy"));
  EXPECT_TRUE(weights("synchronous") == weights("awaited"));
  EXPECT_EQ(most("on_policy", "async/staleness"), 0);
}

TEST_F(asynchronous_runs, ranks_layouts_and_resumes_have_one_hash) {
  EXPECT_GT(most("stale", "actor/grad_norm"), 0);
  EXPECT_GT(most("stale", "async/staleness"), 1);
  EXPECT_GT(most("stale", "fully_async/partial/total_partial_num"), 0);
  expect_as_stale("two", {"trainer.n_gpus_per_node=2"});
  expect_as_stale("three_in_shards", {"trainer.n_gpus_per_node=3", "rlcore.zero_stage=3"});
  expect_as_stale("small_batches", {rollout + "max_num_seqs=3", rollout + "enable_prefix_caching=False"});
  expect_as_stale("one_thread", {"rlcore.threads=1"});
  train("bounded", hot + stale + arguments{"rlcore.max_staleness=1"});
  EXPECT_EQ(most("bounded", "async/staleness"), 1);
  const arguments chunks{"rlcore.row_chunks=2"}, stages{"rlcore.pipeline_parallel_size=2", "rlcore.zero_stage=1"};
  train("chunks", hot + stale + chunks);
  train("stages", hot + stale + chunks + stages + arguments{"trainer.n_gpus_per_node=2"});
  train("groups",
        hot + stale + chunks + arguments{"trainer.n_gpus_per_node=4", rollout + "tensor_model_parallel_size=2"});
  EXPECT_TRUE(five("chunks") == five("stages"));
  EXPECT_TRUE(five("chunks") == five("groups"));
  const arguments context{"actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"};  // sums of its own
  train("context", hot + stale + context + arguments{"trainer.n_gpus_per_node=2", "rlcore.zero_stage=0"});
  train("context_of_four", hot + stale + context + arguments{"trainer.n_gpus_per_node=4"});
  EXPECT_TRUE(five("context") == five("context_of_four"));
  train("tensor", hot + stale + chunks + arguments{"trainer.n_gpus_per_node=2", "rlcore.tensor_parallel_size=2"});
  EXPECT_TRUE(five("chunks") == five("tensor"));
  train("resumed", hot + stale + arguments{"trainer.save_freq=1"});
  for (const int stop : {4, 3, 1}) {
    for (int step = stop + 1; step <= 5; ++step)
      fs::remove_all(root("resumed") / ("global_step_" + std::to_string(step)));
    scratch::write(root("resumed") / "latest_checkpointed_iteration.txt", std::to_string(stop));
    expect_as_stale("resumed", {"trainer.save_freq=1", "trainer.n_gpus_per_node=" + std::to_string(1 + stop % 2)});
  }
}

TEST_F(asynchronous_runs, store_which_step_drew_which_tokens) {
  std::size_t partial = 0;
  for (int step = 1; step <= 5; ++step) {
    std::ifstream lines(stored() / (std::to_string(step) + ".jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const json row = json::parse(line);
      if (!row.contains("sampled_by")) continue;
      ++partial;
      std::int64_t tokens = 0, before = 0;
      for (const json& run : row["sampled_by"]) {
        EXPECT_GT(run[0], before);
        before = run[0];
        tokens += run[1].get<std::int64_t>();
      }
      EXPECT_EQ(tokens, row["response_ids"].size());
      EXPECT_LE(before, step);
      EXPECT_EQ(row["sampled_by"][0][0], row["sampled_step"]);
    }
  }
  EXPECT_GT(partial, 0u);
}

TEST_F(asynchronous_runs, are_replayed_to_the_same_bits) {
  const arguments replayed{"rlcore.replay=" + stored().string()};
  expect_as_stale("replayed", replayed);
  train("bypassed", hot + replayed +
                        arguments{"trainer.total_training_steps=5", "trainer.save_freq=5",
                                  "algorithm.rollout_correction.bypass_mode=True"});
  EXPECT_TRUE(five("bypassed") == five("stale"));
  refused(hot + stale +
              arguments{"rlcore.replay=" +
                        changed_lines(stored(), "no_log_probs", [](json& row) { row.erase("log_probs"); }).string()},
          ": no \"log_probs\" of the engine that sampled");
}

TEST_F(asynchronous_runs, take_old_log_probs_of_the_step_on_request) {
  train("decoupled", hot + stale +
                         arguments{"algorithm.rollout_correction.bypass_mode=False",
                                   "algorithm.rollout_correction.rollout_is=token"});
  EXPECT_EQ(most("decoupled", "actor/ppo_kl"), 0) << "one update: the ratio is to the policy that it begins with";
  EXPECT_NE(scratch::read(root("decoupled") / "metrics.jsonl").find("rollout_corr/"), std::string::npos);
  EXPECT_FALSE(five("decoupled") == five("stale"));
  train("decoupled_two", hot + stale +
                             arguments{"algorithm.rollout_correction.bypass_mode=False",
                                       "algorithm.rollout_correction.rollout_is=token", "trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(five("decoupled") == five("decoupled_two"));
}

TEST_F(asynchronous_runs, combine_with_dynamic_sampling_and_tools) {
  const arguments filter{"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=seq_reward"};
  train("filtered", hot + stale + filter);
  train("filtered_two", hot + stale + filter + arguments{"trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(five("filtered") == five("filtered_two"));
  const arguments tools = stale + arguments{"async_training.partial_rollout=False"};
  train("tools", tools);
  train("tools_two", tools + arguments{"trainer.n_gpus_per_node=2", "actor_rollout_ref.rollout.agent.num_workers=1"});
  EXPECT_TRUE(five("tools") == five("tools_two"));
  EXPECT_EQ(most("tools", "async/staleness"), 1);
}

/// Conversations, hot enough that some call a tool late; long ones get less reward.
class asynchronous_conversations : public asynchronous_runs {
 protected:
  static void SetUpTestSuite() { tool_runs::SetUpTestSuite(); }
  static inline const arguments talks = stale + arguments{rollout + "temperature=1.5",
                                                          "data.max_response_length=160",
                                                          "reward_model.reward_manager=dapo",
                                                          "reward_model.overlong_buffer.enable=True",
                                                          "reward_model.overlong_buffer.len=150",
                                                          "reward_model.overlong_buffer.penalty_factor=1"};
  /// Responses of `name`, five steps of them, that several steps drew and that have a reply of a tool or an agent.
  static int partial(const std::string& name) {
    int count = 0;
    for (int step = 1; step <= 5; ++step) {
      std::ifstream lines(place->path() / (name + "_rows") / (std::to_string(step) + ".jsonl"));
      for (std::string line; std::getline(lines, line);) {
        const json row = json::parse(line);
        count += row.contains("sampled_by") && row.contains("mask");
      }
    }
    return count;
  }
  static arguments store(const std::string& name) {
    return {"trainer.rollout_data_dir=" + (place->path() / (name + "_rows")).string()};
  }
  static void expect_as(const std::string& first, const std::string& name, const arguments& more) {
    SCOPED_TRACE(name);
    train(name, more);
    EXPECT_TRUE(five(first) == five(name));
  }
  /// A resume of steps 3 and 1 of a run of `more` on two ranks and on one ends as `first`.
  static void expect_resumed(const std::string& first, const arguments& more) {
    const std::string name = first + "_resumed";
    train(name, more + arguments{"trainer.save_freq=1"});
    for (const int stop : {3, 1}) {
      for (int step = stop + 1; step <= 5; ++step) fs::remove_all(root(name) / ("global_step_" + std::to_string(step)));
      scratch::write(root(name) / "latest_checkpointed_iteration.txt", std::to_string(stop));
      expect_as(first, name,
                more + arguments{"trainer.save_freq=1", "trainer.n_gpus_per_node=" + std::to_string(stop)});
    }
  }
};

TEST_F(asynchronous_conversations, with_tools_pause_and_have_one_hash) {
  train("talks", talks + store("talks"));
  EXPECT_GT(partial("talks"), 0);
  EXPECT_GT(most("talks", "async/staleness"), 0);
  EXPECT_GT(most("talks", "tool_call_counts/max"), 0);
  expect_as("talks", "talks_two", talks + arguments{"trainer.n_gpus_per_node=2", rollout + "agent.num_workers=1"});
  expect_as("talks", "talks_small",
            talks + arguments{rollout + "max_num_seqs=3", rollout + "enable_prefix_caching=False"});
  expect_as("talks", "talks_replayed", talks + arguments{"rlcore.replay=" + (place->path() / "talks_rows").string()});
  expect_resumed("talks", talks);
  const arguments chunks{"rlcore.row_chunks=2"};
  train("talk_chunks", talks + chunks);
  expect_as("talk_chunks", "talk_groups",
            talks + chunks + arguments{"trainer.n_gpus_per_node=4", rollout + "tensor_model_parallel_size=2"});
}

TEST_F(asynchronous_conversations, do_not_depend_on_the_latencies_of_tools) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  train("talks_python", talks + python_calculator("pass"));
  expect_as("talks_python", "talks_late", talks + python_calculator("await asyncio.sleep(random.random() / 50)"));
}

TEST_F(asynchronous_conversations, without_staleness_are_the_synchronous_ones) {
  train("talks_synchronous", arguments{rollout + "temperature=1.5", "trainer.save_freq=3"});
  train("talks_on_policy", on_policy + arguments{rollout + "temperature=1.5", "trainer.save_freq=3"});
  ASSERT_FALSE(weights("talks_synchronous").empty());
  EXPECT_TRUE(weights("talks_synchronous") == weights("talks_on_policy"));
}

TEST_F(asynchronous_runs, of_verl_s_command_line_train) {
  const program::result r = train(
      "verl",
      hot + arguments{"--config-name=fully_async_ppo_trainer.yaml", "data.train_batch_size=0", "data.gen_batch_size=1",
                      "actor_rollout_ref.hybrid_engine=False", "actor_rollout_ref.rollout.calculate_log_probs=True",
                      "rollout.nnodes=1", "rollout.n_gpus_per_node=2", "rollout.total_rollout_steps=32",
                      "rollout.total_epochs=10", "rollout.test_freq=10", "async_training.trigger_parameter_sync_step=2",
                      "async_training.require_batches=2", "async_training.partial_rollout=True",
                      "actor_rollout_ref.actor.ppo_mini_batch_size=4", "~trainer.total_training_steps"});
  EXPECT_NE(r.out.find("prompts in play"), std::string::npos) << r.out;
  EXPECT_EQ(program::metric_rows(root("verl")).size(), 4u) << "32 prompts in steps of 2 x 4";
}

TEST_F(asynchronous_runs, are_refused_where_they_cannot_be) {
  refused(hot + stale + arguments{"rlcore.async_depth=1"}, "two ways to train asynchronously; keep one");
  refused(hot + arguments{"data.train_batch_size=0"}, "data.train_batch_size=0: expected an integer >= 1");
  refused(hot + arguments{"async_training.staleness_threshold=-1"}, "async_training.staleness_threshold=-1");
  refused(hot + arguments{"async_training.staleness_threshold=1.5", "rlcore.max_staleness=1"},
          "rlcore.max_staleness=1: expected at least async_training.staleness_threshold=1.5");
  refused(hot + arguments{"trainer.total_training_steps=null", "async_training.require_batches=1",
                          "rollout.total_rollout_steps=3"},
          "do not fill one step of 8");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
