// Policies that call tools: they learn it, and a run has the same bits however the calls and the ranks are arranged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "programs/tool_runs.hpp"

namespace RLCORE_TEST_ID {
namespace {

using namespace tool_runs_test;
using tools = tool_runs;

TEST_F(tools, grpo_teaches_to_call_the_calculator) {
  const program::result r =
      train("learns", {"data.train_batch_size=32", rollout + "n=8", "actor_rollout_ref.actor.ppo_mini_batch_size=16",
                       "trainer.total_training_steps=10"});
  EXPECT_NE(r.out.find("tools  calculator from "), std::string::npos) << r.out;
  const auto rows = program::metric_rows(root("learns"));
  ASSERT_EQ(rows.size(), 10u);
  EXPECT_LT(rows.front()["critic/score/mean"], 0.3);
  EXPECT_GT(rows.back()["critic/score/mean"], 0.75);
  EXPECT_LT(rows.front()["num_turns/mean"], 3);
  EXPECT_GT(rows.back()["num_turns/mean"], 3.8);
  EXPECT_GT(rows.back()["response_length/mean"], rows.back()["response_length_policy/mean"]);
}

TEST_F(tools, no_bit_depends_on_workers_batches_or_ranks) {
  expect_as_one("worker", {rollout + "agent.num_workers=1"});
  expect_as_one("singly", {rollout + "max_num_seqs=3", rollout + "enable_prefix_caching=False"});
  expect_as_one("two", {"trainer.n_gpus_per_node=2"});
  train("rows", {"trainer.save_freq=3", "rlcore.row_chunks=2"});
  train("pair", {"trainer.save_freq=3", "rlcore.row_chunks=2", "trainer.n_gpus_per_node=2",
                 rollout + "tensor_model_parallel_size=2"});
  EXPECT_TRUE(weights("rows") == weights("pair"));
  EXPECT_EQ(program::rows(root("rows")), program::rows(root("pair")));
}

TEST_F(tools, a_resumed_run_ends_with_the_same_bits) {
  train("parts", {"trainer.total_training_steps=1", "trainer.save_freq=1"});
  expect_as_one("parts", {});
}

TEST_F(tools, stored_responses_say_whose_their_tokens_are_and_are_replayed) {
  const std::string stored = (place->path() / "stored").string();
  train("recorded", {"trainer.save_freq=3", "trainer.rollout_data_dir=" + stored});
  std::istringstream lines(scratch::read(fs::path(stored) / "1.jsonl"));
  std::size_t called = 0;
  for (std::string line; std::getline(lines, line);) {
    const json row = json::parse(line);
    std::size_t tokens = row["response_ids"].size(), drawn = tokens;
    if (row.contains("mask")) {
      ++called;
      EXPECT_EQ(row["num_turns"], 4);
      std::size_t sum = 0;
      for (std::size_t i = 0; i < row["mask"].size(); ++i) {
        sum += row["mask"][i].get<std::size_t>();
        if (i % 2 == 1) drawn -= row["mask"][i].get<std::size_t>();
      }
      EXPECT_EQ(sum, tokens);
      EXPECT_NE(row["output"].get<std::string>().find("tool\n"), std::string::npos) << row["output"];
    }
    EXPECT_EQ(row["log_probs"].size(), drawn);
  }
  EXPECT_GT(called, 0u);
  train("replayed", {"trainer.save_freq=3", "rlcore.replay=" + stored});
  EXPECT_TRUE(weights("recorded") == weights("replayed"));
}

TEST_F(tools, in_python_have_the_same_bits_whatever_their_latencies) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const std::string late = "await asyncio.sleep(random.random() / 50)";
  if (!fs::exists(root("one"))) train("one", {"trainer.save_freq=3"});
  train("python", python_calculator(late) + arguments{"trainer.save_freq=3", rollout + "agent.num_workers=4"});
  EXPECT_TRUE(weights("one") == weights("python"));
}

/// Each step trains on what the weights before the last update drew.
class sampling_ahead : public tools {
 protected:
  static std::vector<json> responses(const std::string& name, int step) {
    std::vector<json> all;
    std::istringstream lines(scratch::read(place->path() / (name + "_stored") / (std::to_string(step) + ".jsonl")));
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  }
  static arguments stored(const std::string& name) {
    return {"trainer.rollout_data_dir=" + (place->path() / (name + "_stored")).string(), "trainer.save_freq=3"};
  }
  static inline const arguments ahead{"rlcore.async_depth=1"};
};

TEST_F(sampling_ahead, draws_from_the_weights_before_the_last_update) {
  train("ahead", ahead + stored("ahead"));
  train("frozen", stored("frozen") + arguments{"actor_rollout_ref.actor.optim.lr=0"});
  train("in_step", stored("in_step"));
  const auto ids = [](const std::vector<json>& rows) {
    std::vector<json> all;
    for (const json& row : rows) all.push_back(row["response_ids"]);
    return all;
  };
  EXPECT_EQ(ids(responses("ahead", 1)), ids(responses("in_step", 1)));
  EXPECT_EQ(ids(responses("ahead", 2)), ids(responses("frozen", 2)));
  EXPECT_NE(ids(responses("ahead", 2)), ids(responses("in_step", 2)));
  EXPECT_NE(ids(responses("ahead", 3)), ids(responses("frozen", 3)));
  for (int step = 1; step <= 3; ++step)
    for (const json& row : responses("ahead", step)) EXPECT_EQ(row.value("sampled_step", step), step - (step > 1));
  EXPECT_EQ(program::metric_rows(root("ahead"))[2]["async/staleness"], 1);
}

TEST_F(sampling_ahead, has_the_same_bits_whatever_the_latencies_and_after_a_resume) {
  if (!fs::exists(root("ahead"))) train("ahead", ahead + stored("ahead"));
  const auto same = [&](const std::string& name) {
    ASSERT_FALSE(weights("ahead").empty());
    EXPECT_TRUE(weights("ahead") == weights(name)) << name;
  };
  train("ahead_worker", ahead + arguments{"trainer.save_freq=3", rollout + "agent.num_workers=1"});
  same("ahead_worker");
  train("ahead_whole", ahead + arguments{"trainer.save_freq=1"});
  same("ahead_whole");
  const std::string first = (root("ahead_whole") / "global_step_1").string();
  train("ahead_parts", ahead + arguments{"trainer.save_freq=3", "trainer.resume_mode=resume_path",
                                         "trainer.resume_from_path=" + first});
  same("ahead_parts");
  train("ahead_ranks", ahead + arguments{"trainer.save_freq=2", "trainer.n_gpus_per_node=2"});
  same("ahead_ranks");
  train("ahead_ranks_parts", ahead + arguments{"trainer.save_freq=3", "trainer.n_gpus_per_node=2",
                                               rollout + "tensor_model_parallel_size=2", "rlcore.zero_stage=3",
                                               "trainer.resume_mode=resume_path", "trainer.resume_from_path=" + first});
  same("ahead_ranks_parts");
  train("ahead_replayed", {"rlcore.replay=" + (place->path() / "ahead_stored").string(), "trainer.save_freq=3"});
  same("ahead_replayed");
  const arguments current{"rlcore.recompute_old_log_prob=True"};
  train("current", ahead + current + stored("current"));
  train("current_replayed",
        ahead + current +
            arguments{"rlcore.replay=" + (place->path() / "current_stored").string(), "trainer.save_freq=3"});
  EXPECT_TRUE(weights("current") == weights("current_replayed"));
  EXPECT_FALSE(weights("current") == weights("ahead"));
  if (!has_python()) return;
  train("ahead_python",
        ahead + python_calculator("await asyncio.sleep(random.random() / 10)") + arguments{"trainer.save_freq=3"});
  same("ahead_python");
}

/// A GPU's kernels have the CPU's bits; NPUs those of another run, with other latencies.
TEST_F(sampling_ahead, runs_on_emulated_devices) {
  const arguments two{"trainer.save_freq=2", "trainer.total_training_steps=2"}, on{"trainer.device=cuda_emulator"},
      npu{"trainer.device=npu_emulator"}, late{rollout + "agent.num_workers=1"};
  train("ahead_cpu", ahead + two);
  train("ahead_cuda", ahead + two + on);
  ASSERT_FALSE(weights("ahead_cpu", 2).empty());
  EXPECT_TRUE(weights("ahead_cpu", 2) == weights("ahead_cuda", 2));
  train("ahead_npu", ahead + two + npu);
  train("ahead_npu_late", ahead + two + npu + late);
  EXPECT_TRUE(weights("ahead_npu", 2) == weights("ahead_npu_late", 2));
}

TEST_F(sampling_ahead, is_refused_where_it_cannot_be) {
  refused(ahead + arguments{"algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc"},
          "rlcore.async_depth=1");
  refused({"rlcore.async_depth=2"}, "rlcore.async_depth=2");
}

TEST_F(tools, that_fail_are_read_by_the_model_or_end_the_run) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  const arguments one_step{"trainer.total_training_steps=1"};
  train("raises", python_calculator("raise ValueError('no paper')") + one_step);
  EXPECT_GT(program::metric_rows(root("raises")).back()["tool/errors"], 0);
  const arguments dies = python_calculator("os._exit(3)") + one_step;
  const program::result r =
      program::run("grpo_trainer", settings("dies") + dies + arguments{"rlcore.on_tool_failure=stop"});
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("exit code 3"), std::string::npos) << r.err;
  train("goes_on", dies);
}

TEST_F(tools, that_cannot_be_called_are_refused_in_one_line) {
  const std::string file = (task() / "data/tools.json").string();
  refused({turns + "tool_config_path=" + (task() / "none.yaml").string()}, "none.yaml");
  refused({turns + "enable=False"}, "has an effect only with " + turns + "enable=True");
  refused({turns + "format=qwen3_coder"}, "format=qwen3_coder");
  refused({"rlcore.chat_template=chatml"}, "shows no tools; rlcore.chat_template=qwen2.5 names one that does");
  json twice = json::parse(scratch::read(file));
  twice["tools"].push_back(twice["tools"][0]);
  const fs::path other = place->path() / "twice.json";
  std::ofstream(other) << twice.dump();
  refused({turns + "tool_config_path=" + other.string()}, "two tools have the name 'calculator'");
  json row = json::parse(
      scratch::read(task() / "data/train.jsonl").substr(0, scratch::read(task() / "data/train.jsonl").find('\n')));
  row["agent_name"] = "tool_agnet";
  const fs::path rows = place->path() / "rows.jsonl";
  std::ofstream(rows) << row.dump() << "\n";
  refused({"data.train_files=" + rows.string()}, "'tool_agnet' is unknown (did you mean 'tool_agent'?)");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
