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

#include "support/run_files.hpp"

namespace RLCORE_TEST_ID {
namespace {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;
using json = nlohmann::ordered_json;

const std::string rollout = "actor_rollout_ref.rollout.", turns = rollout + "multi_turn.";

/// The quickstart's task with a calculator, made once: its model calls the calculator in one answer of four.
class tools : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place = new scratch::folder;
    const program::result made =
        program::run("quickstart", {"--tools", "--task_only", "quickstart.warm_start_steps=200"},
                     "cd '" + place->path().string() + "' &&");
    ASSERT_EQ(made.code, 0) << made.err;
  }
  static void TearDownTestSuite() {
    delete place;
    place = nullptr;
  }
  static fs::path task() { return place->path() / "runs/tools"; }
  static fs::path root(const std::string& name) { return place->path() / name; }

  static arguments settings(const std::string& name) {
    return {"algorithm.adv_estimator=grpo",
            "data.train_files=" + (task() / "data/train.jsonl").string(),
            "data.train_batch_size=8",
            "data.max_prompt_length=160",
            "data.max_response_length=64",
            "actor_rollout_ref.model.path=" + (task() / "model").string(),
            "actor_rollout_ref.actor.optim.lr=3e-4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=8",
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16",
            rollout + "n=4",
            turns + "enable=True",
            turns + "tool_config_path=" + (task() / "data/tools.json").string(),
            "data.val_files=[]",
            "trainer.logger=[console,file]",
            "trainer.total_training_steps=3",
            "trainer.default_local_dir=" + root(name).string()};
  }
  static program::result train(const std::string& name, const arguments& more = {}, const std::string& before = "") {
    const program::result r = program::run("grpo_trainer", settings(name) + more, before);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  }
  static std::string weights(const std::string& name, int step = 3) {
    return scratch::read(root(name) / ("global_step_" + std::to_string(step)) / "actor/huggingface/model.safetensors");
  }
  /// `more` prepares the run of `name` as train() does; the run must be that of "one" but for its wall time.
  static void expect_as_one(const std::string& name, const arguments& more) {
    SCOPED_TRACE(name);
    if (!fs::exists(root("one"))) train("one", {"trainer.save_freq=3"});
    train(name, more + arguments{"trainer.save_freq=3"});
    ASSERT_FALSE(weights("one").empty());
    EXPECT_TRUE(weights("one") == weights(name));
    EXPECT_EQ(program::rows(root("one")), program::rows(root(name)));
  }
  static void refused(const arguments& more, const std::string& part) {
    SCOPED_TRACE(part);
    const program::result r = program::run("grpo_trainer", settings("refused") + more);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
    EXPECT_FALSE(fs::exists(root("refused")));
  }
  /// A file of tools with one in Python, called calculator, which computes a product after `before`.
  static arguments python_calculator(const std::string& before) {
    const fs::path folder = place->path() / ("python" + std::to_string(++files));
    fs::create_directories(folder);
    std::ofstream(folder / "my_tools.py") << "import asyncio, os, random, time\n"
                                             "from verl.tools.base_tool import BaseTool\n"
                                             "from verl.tools.schemas import ToolResponse\n\n"
                                             "class Product(BaseTool):\n"
                                             "    async def execute(self, instance_id, parameters, **kwargs):\n"
                                             "        a, b = parameters['expression'].split(' * ')\n"
                                             "        "
                                          << before
                                          << "\n"
                                             "        return ToolResponse(text=str(int(a) * int(b))), 0.5, {}\n";
    json file = json::parse(scratch::read(task() / "data/tools.json"));
    file["tools"][0]["class_name"] = "my_tools.Product";
    std::ofstream(folder / "tools.json") << file.dump();
    return {turns + "tool_config_path=" + (folder / "tools.json").string()};
  }
  static bool has_python() { return std::system("python3 -c '' 2>/dev/null") == 0; }

  static inline scratch::folder* place = nullptr;
  static inline int files = 0;
};

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
  train("ahead_replayed", {"rlcore.replay=" + (place->path() / "ahead_stored").string(), "trainer.save_freq=3"});
  same("ahead_replayed");
  if (!has_python()) return;
  train("ahead_python",
        ahead + python_calculator("await asyncio.sleep(random.random() / 10)") + arguments{"trainer.save_freq=3"});
  same("ahead_python");
}

TEST_F(sampling_ahead, is_refused_where_it_cannot_be) {
  refused(ahead + arguments{"trainer.n_gpus_per_node=2"}, "rlcore.async_depth=1");
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
  refused({turns + "enable=False"}, "the tools are called only with " + turns + "enable=True");
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
