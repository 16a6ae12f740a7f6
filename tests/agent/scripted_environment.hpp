// Environments that give scripted answers, and conversations with them.
#pragma once

#include "agent/scripted_turns.hpp"

namespace scripted_turns {

using agent::environment;
using agent::turn_reply;
using agent::turn_request;

/// An environment that remembers what it read. Its n-th answer in all, from 0, is `answers(request, n)`.
class scripted_environment final : public environment {
 public:
  using answering = std::function<turn_reply(const turn_request&, std::size_t n)>;

  scripted_environment(kind what, answering answers, std::optional<std::string> prompt = {})
      : what_(what), answers_(std::move(answers)), prompt_(std::move(prompt)) {}
  /// Gives listed answers. The text "throw" is an exception.
  scripted_environment(kind what, std::vector<turn_reply> answers, std::optional<std::string> prompt = {})
      : what_(what), prompt_(std::move(prompt)) {
    answers_ = [all = std::move(answers)](const turn_request&, std::size_t n) {
      if (all.at(n).text == "throw") throw agent::tool_error("the agent is broken");
      return all.at(n);
    };
  }
  kind what() const override { return what_; }
  std::optional<std::string> open(const turn_request& request) override {
    const std::lock_guard lock(mutex_);
    opened.push_back(request);
    return prompt_;
  }
  turn_reply step(const turn_request& request) override {
    const std::lock_guard lock(mutex_);
    asked.push_back(request);
    said.push_back(answers_(request, asked.size() - 1));
    return said.back();
  }
  void close(const turn_request& request) noexcept override {
    const std::lock_guard lock(mutex_);
    closed.push_back(request.conversation);
  }

  std::vector<turn_request> opened, asked;
  std::vector<turn_reply> said;  ///< but for exceptions
  std::vector<std::uint64_t> closed;

 private:
  kind what_;
  answering answers_;
  std::optional<std::string> prompt_;
  std::mutex mutex_;
};

inline ids encoded(const std::string& text) { return tokenizer().encode(text, true); }

/// One response of which the policy's turns are given, with an environment and the tools of the reference.
struct one_talk {
  agent::conversation_settings settings{.max_response_length = 1000, .workers = 2};
  agent::reply_tokens replies = replies_of("qwen2.5");
  ids prompt = encoded("Q: 6 x 7?\nA:");
  toolbox tools{};
  agent::row_setup row{.label = "42"};  ///< but for the environment
  rollout::response response{};
  agent::conversation_record record{};
  std::vector<double> turn_rewards{};
  std::string logs{};
  ids shown{};  ///< the prompt that the policy reads

  void lead_ids(environment& e, const std::vector<ids>& turns) {
    row.environment = &e;
    conversations talks(tokenizer(), &replies, settings, [&](std::uint32_t) { return row; });
    std::vector<rollout::request> requests{{.prompt = prompt, .prompt_number = 5, .sample = 3}};
    talks.prepare(requests);
    shown.assign(requests[0].prompt.begin(), requests[0].prompt.end());
    response = play(talks, requests, {turns}, settings.max_response_length)[0];
    record = talks.records()[0];
    turn_rewards.assign(talks.turn_rewards(0).begin(), talks.turn_rewards(0).end());
    logs = talks.logs(0);
  }
  void lead(environment& e, const std::vector<std::string>& turns) {
    std::vector<ids> line;
    for (const std::string& t : turns) line.push_back(encoded(t));
    lead_ids(e, line);
  }
  std::vector<std::string> texts() const { return run_texts(response.tokens, scripted_turns::runs(response)); }
};

}  // namespace scripted_turns
