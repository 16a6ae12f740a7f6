// Message queue from the engine's thread to the request's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/generator.hpp"

RLCORE_BEGIN
namespace serving {

/// Listener messages in order. One thread waits, the engine's thread pushes.
class inbox final : public job_listener {
 public:
  /// From on_prompt().
  struct prompt_report {
    scored_token token;
  };
  /// From on_token().
  struct token_report {
    scored_token token;
  };
  /// From on_end() or on_failure(): `problem` is empty unless the engine has failed.
  struct end_report {
    rollout::finish why = rollout::finish::cancelled;
    std::string problem{};
  };
  /// A call of the listener.
  struct message {
    std::size_t job = 0;
    std::variant<prompt_report, token_report, end_report> what;
  };

  void on_prompt(std::size_t job, scored_token token) override { put({job, prompt_report{std::move(token)}}); }
  void on_token(std::size_t job, scored_token token) override { put({job, token_report{std::move(token)}}); }
  void on_end(std::size_t job, rollout::finish why) override { put({job, end_report{why}}); }
  void on_failure(const std::string& problem) override {
    put({0, end_report{rollout::finish::cancelled, problem.empty() ? "the engine has stopped" : problem}});
  }

  /// The next message, or nothing after this long.
  std::optional<message> take(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    if (!filled_.wait_for(lock, longest, [&] { return !messages_.empty(); })) return std::nullopt;
    message next = std::move(messages_.front());
    messages_.pop_front();
    return next;
  }

 private:
  void put(message next) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(std::move(next));
    }
    filled_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<message> messages_;
};

}  // namespace serving
RLCORE_END
