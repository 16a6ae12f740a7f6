// A conversation of the policy with tools or an environment. Environments: an agent of OpenRLHF or a simulated user of
// verl, which answers the turns of the policy.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/agent/tool.hpp"
#include "rlcore/agent/tool_calls.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/text/message.hpp"

RLCORE_BEGIN
namespace agent {

/// A turn of the policy, as an environment reads it.
struct turn_request {
  std::uint64_t conversation = 0;                  ///< its number, which no other conversation of the process has
  std::uint32_t row = 0, sample = 0, number = 0;   ///< row of the data set, sample of the row, turn of the response
  std::string label;                               ///< the row's ground truth
  const nlohmann::ordered_json* kwargs = nullptr;  ///< the row's extra_info.interaction_kwargs; null: none
  std::string observation;                         ///< for agents: all text before the turn, special tokens included
  std::string action;  ///< for agents: the same of the turn, without the token that ended it
  /// For simulated users: the conversation as chat messages without special tokens; the last one is the turn.
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
};

/// What the environment answers.
struct turn_reply {
  std::string text;                         ///< what the policy reads next; an agent that is not done says something
  bool done = false;                        ///< the conversation has ended
  double reward = 0;                        ///< of this turn
  std::optional<double> score;              ///< for dynamic sampling; none: the sum of the rewards
  std::map<std::string, double> logs = {};  ///< of an agent: the last answer's become agent/NAME/*
};

/// Answers the turns of the policy. All functions may run in many threads at once; those of one conversation run one
/// after the other. A response that pauses (async_training.*) is closed, and is a new conversation when it goes on:
/// open() and the step()s of its earlier turns come again, perhaps in another process, and have to answer the same.
class environment {
 public:
  /// What it stands for.
  enum class kind {
    agent,  ///< OpenRLHF's: answers every turn, by text as it is; the sum of its rewards is the response's score
    user    ///< verl's interaction: answers a turn that calls no tool, as the user; its rewards are only reported
  };

  virtual ~environment() = default;
  virtual kind what() const = 0;
  /// A conversation begins; `request` has its prompt as `observation`. Returns the text of another prompt, if it is to
  /// have one. Throws as step(); close() is not called then.
  virtual std::optional<std::string> open(const turn_request& /*request*/) { return {}; }
  /// Answers a turn. Throws tool_error for a failure of this conversation: the run ends, or the response has reward 0
  /// (rlcore.reward_on_failure=zero); any other exception ends the run.
  virtual turn_reply step(const turn_request& request) = 0;
  /// The conversation has ended by the reply or because it has its full length, or it pauses; step() is not called
  /// again.
  virtual void close(const turn_request& /*request*/) noexcept {}
};

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
