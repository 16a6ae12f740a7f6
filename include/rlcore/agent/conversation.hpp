// A conversation of the policy with tools or an environment: its limits, what the data bring into it, what happened.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/agent/environment.hpp"
#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace agent {

/// Limits of a conversation, and what happens to failures; verl's rollout.multi_turn.*.
struct conversation_settings {
  std::int64_t max_response_length = 0;                      ///< tokens, replies included
  std::int64_t max_prompt_length = 0;                        ///< tokens of a prompt that an agent changes; 0: no limit
  std::int64_t max_assistant_turns = 0, max_user_turns = 0;  ///< 0: no limit
  std::int64_t max_parallel_calls = 1;                       ///< calls of a turn that are run; the rest is ignored
  std::int64_t max_tool_text = 256;                          ///< code points of a tool's reply
  cut_side cut = cut_side::middle;                           ///< where a longer one is cut
  bool failures_as_text = true;                              ///< false: a broken tool ends the run
  bool zero_on_failure = false;  ///< true: a response whose agent fails has reward 0; false: the run ends
  std::int64_t workers = 8;      ///< calls that run at the same time
};

/// What happened in one response.
struct conversation_record {
  std::int32_t assistant_turns = 0, user_turns = 0, calls = 0, failures = 0, unread = 0;
  double tool_reward = 0, seconds = 0;  ///< sums over the calls; seconds of the environment, too
  double reward = 0, score = 0;         ///< of the environment: sum over its answers, and its last score
  double turn_reward = 0;               ///< of its last answer
};

/// What the row of a request brings into its conversations.
struct row_setup {
  std::vector<tool*> tools = {};                           ///< that the policy may call
  std::vector<const nlohmann::ordered_json*> kwargs = {};  ///< of each tool; null: none
  agent::environment* environment = nullptr;               ///< answers turns; null: none
  const nlohmann::ordered_json* environment_kwargs = nullptr;
  std::string label = {};                                ///< the ground truth, for an agent
  const std::vector<text::message>* messages = nullptr;  ///< of the prompt, for a simulated user; null: none

  bool has_agent() const { return environment != nullptr && environment->what() == environment::kind::agent; }
  bool has_user() const { return environment != nullptr && !has_agent(); }
};

}  // namespace agent
RLCORE_END
