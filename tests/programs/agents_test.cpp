// Policies that talk to an agent with OpenRLHF's interface, or to a simulated user with verl's.
#include <gtest/gtest.h>

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

class agents : public tool_runs {
 protected:
  void SetUp() override {
    if (!has_python()) GTEST_SKIP() << "no python3";
  }
  /// An agent that says whether the answer is right, and lets the policy try twice. `reset` and `step` are lines of it.
  static fs::path agent_file(const std::string& reset = "", const std::string& step = "") {
    const fs::path file = place->path() / ("agent" + std::to_string(++files) + ".py");
    std::ofstream(file)
        << "import os\n"
           "from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor\n\n"
           "class AgentInstance(AgentInstanceBase):\n"
           "    def __init__(self, *args, **kwargs):\n"
           "        self.turn = 0\n\n"
           "    async def reset(self, states, **kwargs):\n"
           "        text = states['observation']\n"
           "        "
        << reset
        << "\n"
           "        return {'observation': text}\n\n"
           "    async def step(self, states, **kwargs):\n"
           "        self.turn += 1\n"
           "        "
        << step
        << "\n"
           "        right = states['label'] in states['action_text']\n"
           "        reward = 1.0 if right else len(states['action_text']) % 8 / 16\n"
           "        return {'rewards': reward, 'scores': reward,\n"
           "                'environment_feedback': '\\n<|im_start|>user\\nNo.<|im_end|>\\n"
           "<|im_start|>assistant\\n', 'done': right or self.turn == 2,\n"
           "                'sampling_params': states['sampling_params'], 'extra_logs': {'tries': self.turn}}\n\n"
           "class AgentExecutor(MultiTurnAgentExecutor):\n"
           "    def __init__(self):\n"
           "        super().__init__(AgentInstance)\n";
    return file;
  }
  static arguments with(const fs::path& file) {
    return {"rlcore.agent_func_path=" + file.string(), turns + "enable=False", turns + "tool_config_path=null",
            "trainer.save_freq=3"};
  }
  static std::vector<json> stored(const std::string& folder, int step) {
    std::vector<json> all;
    std::istringstream lines(scratch::read(place->path() / folder / (std::to_string(step) + ".jsonl")));
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  }
  static arguments store(const std::string& folder) {
    return {"trainer.rollout_data_dir=" + (place->path() / folder).string()};
  }
};

TEST_F(agents, give_the_rewards_and_no_bit_depends_on_ranks_or_workers) {
  const arguments agent = with(agent_file());
  const program::result r = train("agent", agent + store("agent_rows"));
  EXPECT_NE(r.out.find("agent  "), std::string::npos) << r.out;
  const auto metrics = program::metric_rows(root("agent"));
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_GT(metrics[0]["num_turns/mean"], 2);
  EXPECT_LE(metrics[0]["num_turns/max"], 4);
  EXPECT_EQ(metrics[0]["turn_reward/mean"], metrics[0]["critic/score/mean"]);
  EXPECT_EQ(metrics[0]["agent/tries/max"], 2);
  EXPECT_GT(metrics[0]["actor/grad_norm"], 0);
  std::size_t twice = 0;
  for (const json& row : stored("agent_rows", 1)) {
    const std::string output = row["output"], label = row["gts"];
    const std::size_t second = output.find("\nuser\nNo.\nassistant\n");
    twice += second != output.npos;
    const bool right = output.substr(second == output.npos ? 0 : second).find(label) != output.npos;
    double sum = 0;
    for (const json& reward : row["turn_rewards"]) sum += reward.get<double>();
    EXPECT_EQ(row["turn_rewards"].back() == 1.0, right) << output;
    EXPECT_EQ(row["score"], sum) << output;
  }
  EXPECT_GT(twice, 0u);
  for (const auto& [name, more] : {std::pair("workers", arguments{rollout + "agent.num_workers=1"}),
                                   {"ranks", arguments{"trainer.n_gpus_per_node=2"}},
                                   {"late", with(agent_file("",
                                                            "import asyncio, random; await asyncio.sleep("
                                                            "random.random() / 50)"))},
                                   {"replay", arguments{"rlcore.replay=" + (place->path() / "agent_rows").string()}}}) {
    train(name, agent + more);
    EXPECT_TRUE(weights("agent") == weights(name)) << name;
  }
}

TEST_F(agents, have_advantages_by_turn) {
  const arguments agent = with(agent_file()) + arguments{"algorithm.adv_estimator=gigpo", "algorithm.gamma=0.9"};
  train("gigpo", agent + store("gigpo_rows"));
  train("gigpo_ranks", agent + arguments{"trainer.n_gpus_per_node=2"});
  train("gigpo_replay", agent + arguments{"rlcore.replay=" + (place->path() / "gigpo_rows").string()});
  train("grpo", with(agent_file()));
  EXPECT_TRUE(weights("gigpo") == weights("gigpo_ranks"));
  EXPECT_TRUE(weights("gigpo") == weights("gigpo_replay"));
  EXPECT_FALSE(weights("gigpo") == weights("grpo"));
}

TEST_F(agents, of_openrlhf_s_command_line_train) {
  const fs::path file = place->path() / "page.py";
  const std::string page = scratch::read(fs::path(RLCORE_SOURCE_DIR) / "docs/tools.md"), begin = "```python\n";
  const std::size_t at = page.find(begin) + begin.size();
  std::ofstream(file) << page.substr(at, page.find("```", at) - at);
  const auto flag = [](const char* name, const std::string& x) { return arguments{name, x}; };
  const program::result r = program::run(
      "grpo_trainer", flag("--agent_func_path", file.string()) + flag("--pretrain", (task() / "model").string()) +
                          flag("--prompt_data", (task() / "data/train.jsonl").string()) +
                          flag("--input_key", "prompt") + flag("--prompt_max_len", "160") +
                          flag("--generate_max_len", "64") + flag("--rollout_batch_size", "8") +
                          flag("--train_batch_size", "32") + flag("--n_samples_per_prompt", "4") +
                          flag("--max_samples", "16") + flag("--advantage_estimator", "reinforce_baseline") +
                          flag("--actor_learning_rate", "3e-4") + flag("--ckpt_path", root("openrlhf").string()) +
                          flag("--save_path", (place->path() / "openrlhf_model").string()) +
                          arguments{"--apply_chat_template", "--async_train"});
  EXPECT_EQ(r.code, 0) << r.err;
  const auto metrics = program::metric_rows(root("openrlhf"));
  ASSERT_EQ(metrics.size(), 2u);
  EXPECT_EQ(metrics[1]["async/staleness"], 1);
  EXPECT_GT(metrics[1]["num_turns/mean"], 2);
  EXPECT_EQ(metrics[1]["agent/tries/max"], 3);
}

TEST_F(agents, may_change_prompts_and_are_replayed) {
  const arguments agent = with(agent_file("text = text.replace('assistant\\n', 'assistant\\nWell, ')"));
  train("changed", agent + store("changed_rows"));
  for (const json& row : stored("changed_rows", 1))
    EXPECT_NE(row["input"].get<std::string>().find("assistant\nWell, "), std::string::npos) << row["input"];
  train("changed_again", agent + arguments{"rlcore.replay=" + (place->path() / "changed_rows").string()});
  EXPECT_TRUE(weights("changed") == weights("changed_again"));
  train("changed_ranks", agent + arguments{"trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(weights("changed") == weights("changed_ranks"));
}

TEST_F(agents, that_fail_end_the_run_or_count_0) {
  const arguments agent = with(agent_file("", "raise ValueError('no paper')")) + arguments{"trainer.save_freq=-1"};
  const program::result r = program::run("grpo_trainer", settings("fails") + agent);
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.err.find("no paper"), std::string::npos) << r.err;
  EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  const arguments closed = with(agent_file("raise ValueError('no table')")) + arguments{"trainer.save_freq=-1"};
  const program::result none =
      train("unopened", closed + arguments{"rlcore.reward_on_failure=zero", "trainer.total_training_steps=1"});
  EXPECT_NE(none.out.find("no table"), std::string::npos) << none.out;
  EXPECT_EQ(program::metric_rows(root("unopened"))[0]["tool/errors"], 32);
  train("zero", agent + arguments{"rlcore.reward_on_failure=zero", "trainer.total_training_steps=1"});
  EXPECT_EQ(program::metric_rows(root("zero"))[0]["critic/score/max"], 0);
  EXPECT_EQ(program::metric_rows(root("zero"))[0]["tool/errors"], 32);
}

TEST_F(agents, that_change_prompts_and_reward_turns_are_resumed) {
  const std::string step =
      "return {'rewards': 1.0 / (1 + len(states['action_text'])), 'environment_feedback': ' x', "
      "'done': self.turn == 2}";
  const arguments agent = with(agent_file("text = text.replace('assistant\\n', 'assistant\\nWell, ')", step)) +
                          arguments{"rlcore.async_depth=1", "rlcore.turn_rewards=True",
                                    "algorithm.adv_estimator=reinforce_plus_plus", "trainer.save_freq=1"};
  train("whole", agent);
  train("rest", agent + arguments{"trainer.resume_mode=resume_path",
                                  "trainer.resume_from_path=" + (root("whole") / "global_step_1").string()});
  EXPECT_TRUE(weights("whole") == weights("rest"));
  train("sums", agent + arguments{"rlcore.turn_rewards=False"});
  EXPECT_FALSE(weights("whole") == weights("sums"));
}

/// Agents and users keep their state in Python: asked again about the earlier turns they have it again.
TEST_F(agents, go_on_with_paused_conversations) {
  const std::string reset = "text = text.replace('assistant\\n', 'assistant\\nWell, ')";
  const arguments pausing{"async_training.staleness_threshold=1", "async_training.trigger_parameter_sync_step=1",
                          "trainer.total_training_steps=4", "trainer.save_freq=4", "data.max_response_length=160"};
  const std::string by_row =
      "return {'rewards': len(states['action_text']) % 8 / 16, 'environment_feedback': "
      "'\\n<|im_start|>user\\nNo.<|im_end|>\\n<|im_start|>assistant\\n', "
      "'done': self.turn > int(states['label']) % 4}";
  const arguments agent = with(agent_file(reset, by_row)) + pausing + arguments{"rlcore.turn_rewards=True"};
  train("pausing", agent + store("pausing_rows"));
  int later = 0;
  for (int step = 1; step <= 4; ++step)
    for (const json& row : stored("pausing_rows", step)) later += row.contains("sampled_by") && row.contains("mask");
  EXPECT_GT(later, 0);
  ASSERT_FALSE(weights("pausing", 4).empty());
  train("pausing_ranks", agent + arguments{"trainer.n_gpus_per_node=2", rollout + "agent.num_workers=1"});
  EXPECT_TRUE(weights("pausing", 4) == weights("pausing_ranks", 4));
  train("pausing_parts", agent + arguments{"trainer.save_freq=2"});
  fs::remove_all(root("pausing_parts") / "global_step_4");
  scratch::write(root("pausing_parts") / "latest_checkpointed_iteration.txt", "2");
  train("pausing_parts", agent);
  EXPECT_TRUE(weights("pausing", 4) == weights("pausing_parts", 4));
  train("pausing_replayed", agent + arguments{"rlcore.replay=" + (place->path() / "pausing_rows").string()});
  EXPECT_TRUE(weights("pausing", 4) == weights("pausing_replayed", 4));
  const arguments chunks{"rlcore.row_chunks=2"};
  train("pausing_chunks", agent + chunks);
  train("pausing_groups",
        agent + chunks + arguments{"trainer.n_gpus_per_node=2", rollout + "tensor_model_parallel_size=2"});
  EXPECT_TRUE(weights("pausing_chunks", 4) == weights("pausing_groups", 4));
  const auto moody = [&](const std::string& name, const fs::path& file, const std::string& message) {
    const program::result r = program::run("grpo_trainer", settings(name) + with(file) + pausing);
    EXPECT_EQ(r.code, 1) << r.out;
    EXPECT_NE(r.err.find(message), std::string::npos) << r.err;
    EXPECT_EQ(std::count(r.err.begin(), r.err.end(), '\n'), 1) << r.err;
  };
  moody("moody",
        agent_file("",
                   "import random; return {'rewards': 0.0, 'environment_feedback': ' ' + str(random.random()), "
                   "'done': self.turn > int(states['label']) % 4}"),
        "the agent answers something else when it is asked again");
  moody("moody_prompts", agent_file("import random; text = text[:-1] + str(random.random())", by_row),
        "the agent gives another prompt when it is asked again");
}

TEST_F(agents, that_cannot_be_asked_are_refused_in_one_line) {
  refused({"rlcore.agent_func_path=" + (place->path() / "none.py").string(), turns + "tool_config_path=null"},
          "none.py");
  refused({"rlcore.agent_func_path=" + agent_file().string()}, "an agent (rlcore.agent_func_path) answers every turn");
  const fs::path empty = place->path() / "empty.py";
  std::ofstream(empty) << "x = 1\n";
  refused(with(empty), "AgentInstance");
  refused(with(agent_file()) + arguments{"rlcore.reward_command=cat"}, "leave out rlcore.reward_command");
}

TEST_F(agents, of_verl_answer_as_a_user) {
  std::istringstream lines(scratch::read(task() / "data/train.jsonl"));
  const fs::path rows = place->path() / "user_rows.jsonl", file = place->path() / "users.json";
  std::ofstream out(rows);
  for (std::string line; std::getline(lines, line);) {
    json row = json::parse(line);
    row["extra_info"]["interaction_kwargs"] = {{"name", "gsm8k"},
                                               {"ground_truth", row["reward_model"]["ground_truth"]}};
    out << row.dump() << "\n";
  }
  out.close();
  std::ofstream(file) << json{
      {"interaction",
       {{{"class_name", "verl.interactions.gsm8k_interaction.Gsm8kInteraction"}, {"config", json::object()}}}}};
  const arguments users{"data.train_files=" + rows.string(), turns + "interaction_config_path=" + file.string(),
                        turns + "max_user_turns=2", "data.max_response_length=120", "trainer.save_freq=3"};
  const program::result r = train("users", users + store("users_stored"));
  EXPECT_NE(r.out.find("users  gsm8k from "), std::string::npos) << r.out;
  std::size_t reflected = 0;
  for (const json& row : stored("users_stored", 1))
    reflected += row["output"].get<std::string>().find("You need to reflect on your answer") != std::string::npos;
  EXPECT_GT(reflected, 0u);
  train("users_ranks", users + arguments{"trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(weights("users") == weights("users_ranks"));
  const arguments pausing =
      users + arguments{"async_training.staleness_threshold=1", "async_training.trigger_parameter_sync_step=1"};
  train("users_pausing", pausing + store("users_pausing_stored"));
  int later = 0;
  for (int step = 1; step <= 3; ++step)
    for (const json& row : stored("users_pausing_stored", step))
      later += row.contains("sampled_by") && row.contains("mask");
  EXPECT_GT(later, 0);
  train("users_pausing_ranks", pausing + arguments{"trainer.n_gpus_per_node=2"});
  EXPECT_TRUE(weights("users_pausing") == weights("users_pausing_ranks"));
  std::ofstream(rows) << R"({"prompt": [{"role": "user", "content": "x"}], "data_source": "openai/gsm8k", )"
                         R"("reward_model": {"ground_truth": "1"}, )"
                         R"("extra_info": {"interaction_kwargs": {"name": "gsm"}}})"
                      << "\n";
  refused(users, "interaction_kwargs.name is 'gsm' (did you mean 'gsm8k'?)");
}

}  // namespace
}  // namespace RLCORE_TEST_ID
