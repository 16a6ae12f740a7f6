// The generator behind the API, and the inbox of one request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/rollout/request.hpp"

RLCORE_BEGIN
namespace serving {

/// A token, its log-prob, and the most likely tokens at its position (most likely first).
struct scored_token {
  std::int32_t id = 0;
  float logp = 0;
  std::vector<rollout::token_logprob> most_likely{};
  std::int64_t rank = 0;  ///< rank among all tokens by probability, from 1; 0: unknown
};

/// Callbacks for the jobs of one submission; `job` is the index in it. Each job's calls come in the order of its text.
/// Called on the engine's thread; must not block.
class job_listener {
 public:
  virtual ~job_listener() = default;
  /// A token of the prompt, from the second one on, if the job asked for them; before the first on_token().
  virtual void on_prompt(std::size_t job, scored_token token) = 0;
  /// A drawn token, stop tokens included.
  virtual void on_token(std::size_t job, scored_token token) = 0;
  /// The last call of a job.
  virtual void on_end(std::size_t job, rollout::finish why) = 0;
  /// The engine has failed, or a job could not continue. Later calls for these jobs are irrelevant.
  virtual void on_failure(const std::string& problem) = 0;
};

/// Engine load: current state, and counters since the start.
struct engine_load {
  std::size_t running = 0, waiting = 0;
  double cache_usage = 0;  ///< share of the cache's pages in use
  std::uint64_t tokens_fed = 0, tokens_drawn = 0, preemptions = 0, prefix_hits = 0;
  std::uint64_t pictures_read = 0;  ///< by the vision tower
  std::size_t engines = 1;          ///< number of engines included
  bool broken = false;              ///< it has failed and produces no more output

  /// Two engines together; their caches are equally large.
  engine_load& operator+=(const engine_load& other) {
    running += other.running, waiting += other.waiting;
    const auto mine = static_cast<double>(engines), theirs = static_cast<double>(other.engines);
    cache_usage = (cache_usage * mine + other.cache_usage * theirs) / (mine + theirs);
    engines += other.engines;
    tokens_fed += other.tokens_fed, tokens_drawn += other.tokens_drawn;
    preemptions += other.preemptions, prefix_hits += other.prefix_hits;
    pictures_read += other.pictures_read, broken = broken || other.broken;
    return *this;
  }
};

/// An engine that takes jobs from any thread.
class generator {
 public:
  virtual ~generator() = default;
  /// Throws config_error for a job that submit() would refuse.
  virtual void check(const rollout::job&) const {}
  /// Queues jobs, without a time limit; returns their tickets in order. Throws config_error for a bad job.
  virtual std::vector<rollout::ticket> submit(std::vector<rollout::job> jobs,
                                              std::shared_ptr<job_listener> listener) = 0;
  /// Ends a job within a pass, if it has not ended: rollout::finish::cancelled.
  virtual void cancel(rollout::ticket which) = 0;
  /// Safe to call at any time, even during a pass.
  virtual engine_load load() const = 0;
};

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
