// Environments: an agent of OpenRLHF or a simulated user of verl, which answers the turns of the policy.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"

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
/// after the other.
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
  /// The conversation has ended, by the reply or because it has its full length; step() is not called again.
  virtual void close(const turn_request& /*request*/) noexcept {}
};

}  // namespace agent
RLCORE_END
