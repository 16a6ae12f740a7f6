// What the tests of environments in Python share.
#pragma once

#include "agent/python_tools.hpp"

#include <algorithm>

#include "rlcore/agent/open_tools.hpp"

namespace python_environments {

using namespace python_tools;

/// What begins the files of agents: rewards that look like a tensor's and a numpy scalar's.
constexpr const char* agent_begin = R"py(
import asyncio, json, os, sys, time
from openrlhf.utils.agent import AgentExecutorBase, AgentInstanceBase, MultiTurnAgentExecutor

class Tensor:
    def __init__(self, *values):
        self.values = values
    def item(self):
        if len(self.values) != 1:
            raise RuntimeError("a Tensor with %d elements cannot be converted to Scalar" % len(self.values))
        return self.values[0]

class Scalar(float):
    pass
)py";

/// A folder with a file of an agent or of interactions, and the environments of it.
class PythonEnvironments : public PythonHost {
 protected:
  void TearDown() override {
    env_.reset();
    PythonHost::TearDown();
  }

  std::string path() const { return (place_ / "my_agent.py").string(); }

  agent::environment& open_agent(const std::string& text, agent::python_host_settings settings = {}) {
    scratch::write(path(), agent_begin + text);
    const json sampling{{"temperature", 1.0}, {"top_p", 0.5}, {"max_tokens", 64}};
    env_.reset();
    return *(env_ = agent::open_python_agent(path(), sampling, settings));
  }

  /// The interactions `classes` of a file, by the names a, b, ...
  agent::environments open_users(const std::string& text, const std::vector<std::string>& classes,
                                 agent::python_host_settings settings = {}) {
    scratch::write(place_ / "my_users.py", text);
    std::vector<agent::interaction_entry> entries;
    for (const std::string& c : classes) {
      const std::string name(1, static_cast<char>('a' + entries.size()));
      entries.push_back({name, "my_users." + c, {{"name", name}, {"limit", 3}}});
    }
    return agent::open_python_interactions(entries, file(), settings);
  }

  static agent::turn_request turn(std::uint64_t conversation, const std::string& observation = "",
                                  const std::string& action = "") {
    agent::turn_request request;
    request.conversation = conversation, request.row = static_cast<std::uint32_t>(conversation);
    request.label = "42", request.observation = observation, request.action = action;
    return request;
  }

  /// "text|reward|done|score" of a step.
  static std::string told(agent::environment& env, const agent::turn_request& request) {
    const agent::turn_reply r = env.step(request);
    return r.text + "|" + json(r.reward).dump() + "|" + (r.done ? "done" : "goes on") + "|" +
           (r.score ? json(*r.score).dump() : "none");
  }
  std::string told(const agent::turn_request& request) { return told(*env_, request); }

  /// The error of a step of a conversation that opens for it.
  template <class Error = agent::tool_error>
  std::string failure(const std::string& action, std::uint64_t conversation = 1) {
    env_->open(turn(conversation, "O"));
    const std::string what = scratch::error_of<Error>([&] { env_->step(turn(conversation, "O", action)); });
    env_->close(turn(conversation));
    EXPECT_TRUE(what.starts_with(path() + ": ")) << what;
    return what.substr(std::min(what.size(), path().size() + 2));
  }

  /// " (FILE, line N)", where the file has a text for the first time.
  static std::string place_of(const std::string& what, const std::filesystem::path& file) {
    const std::string text = scratch::read(file);
    const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find(what)), '\n');
    return " (" + file.string() + ", line " + std::to_string(lines + 1) + ")";
  }
  std::string place_of(const std::string& what) const { return place_of(what, path()); }

  std::string refusal(const std::string& text) {
    return scratch::error_of<config_error>([&] { open_agent(text); });
  }

  std::shared_ptr<agent::python_environment> env_;
};

}  // namespace python_environments
