// Short GRPO runs of the quickstart's task with a calculator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/has_python.hpp"
#include "support/kept_task.hpp"
#include "support/run_files.hpp"

namespace tool_runs_test {

namespace fs = std::filesystem;
using program::arguments;
using program::operator+;
using json = nlohmann::ordered_json;

inline const std::string rollout = "actor_rollout_ref.rollout.", turns = rollout + "multi_turn.";

/// The quickstart's task with a calculator: its model calls the calculator in one answer of
/// four.
class tool_runs : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    place = new scratch::folder;
    shared = program::make_kept_task("tools_task", {"--tools", "--task_only", "quickstart.warm_start_steps=200"});
    ASSERT_EQ(shared.made.code, 0) << shared.made.err;
  }
  static void TearDownTestSuite() {
    delete place;
    place = nullptr;
  }
  static fs::path task() { return shared.folder / "runs/tools"; }
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
  /// The stored responses in `from`, with every line changed by f, as the folder `name`.
  template <class F>
  static fs::path changed_lines(const fs::path& from, const std::string& name, F&& f) {
    return program::changed_lines(from, place->path() / name, f);
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

  static inline program::kept_task shared;
  static inline scratch::folder* place = nullptr;
  static inline int files = 0;
};

}  // namespace tool_runs_test
