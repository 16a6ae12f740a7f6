// Generator interface, the inbox of a request, and the thread that runs the engine.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
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
  std::uint64_t images_read = 0;  ///< by the vision tower
  std::size_t engines = 1;        ///< number of engines included
  bool broken = false;            ///< it has failed and produces no more output

  /// Two engines together; their caches are equally large.
  engine_load& operator+=(const engine_load& other) {
    running += other.running, waiting += other.waiting;
    const auto mine = static_cast<double>(engines), theirs = static_cast<double>(other.engines);
    cache_usage = (cache_usage * mine + other.cache_usage * theirs) / (mine + theirs);
    engines += other.engines;
    tokens_fed += other.tokens_fed, tokens_drawn += other.tokens_drawn;
    preemptions += other.preemptions, prefix_hits += other.prefix_hits;
    images_read += other.images_read, broken = broken || other.broken;
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

/// Interface of an engine that shares the thread.
class scheduled_work {
 public:
  virtual ~scheduled_work() = default;
  /// Runs one pass if there is work. Returns whether there was; does not throw.
  virtual bool take_turn() = 0;
};

/// Gives turns while at least one finds work. Thread-safe.
class engine_thread {
 public:
  engine_thread() : thread_([this] { give_turns(); }) {}
  engine_thread(const engine_thread&) = delete;
  engine_thread& operator=(const engine_thread&) = delete;
  /// Ends after the current task and turn.
  ~engine_thread();

  /// From now on `one` gets turns.
  void add(scheduled_work& one) {
    run([&] { all_.push_back(&one); });
  }
  /// `one` gets no more turns when this returns.
  void remove(scheduled_work& one) {
    run([&] { std::erase(all_, &one); });
  }
  /// Signals new work.
  void wake();
  /// Runs a task between two turns and waits for it; throws what it throws. A task may call this too.
  void run(const std::function<void()>& task);

 private:
  struct waiting_task {
    const std::function<void()>& what;
    bool done = false;
    std::exception_ptr failure{};
  };

  void give_turns();
  /// Waits unless `worked`, and runs pending tasks. Returns false on shutdown.
  bool await_work(bool worked);

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<waiting_task*> tasks_;
  std::vector<scheduled_work*> all_;  ///< changed by tasks
  bool awake_ = false, stopping_ = false;
  std::thread thread_;  // last: it uses all others
};

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE engine_thread::~engine_thread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  thread_.join();
}

RLCORE_INLINE void engine_thread::wake() {
  {
    const std::lock_guard lock(mutex_);
    awake_ = true;
  }
  work_.notify_all();
}

RLCORE_INLINE void engine_thread::run(const std::function<void()>& task) {
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  waiting_task own{task};
  std::unique_lock lock(mutex_);
  tasks_.push_back(&own);
  work_.notify_all();
  done_.wait(lock, [&] { return own.done; });
  if (own.failure) std::rethrow_exception(own.failure);
}

RLCORE_INLINE void engine_thread::give_turns() {
  for (bool worked = true; await_work(worked);) {
    worked = false;
    for (scheduled_work* const one : all_) worked |= one->take_turn();
  }
}

RLCORE_INLINE bool engine_thread::await_work(bool worked) {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] { return worked || awake_ || stopping_ || !tasks_.empty(); });
  awake_ = false;
  for (; !tasks_.empty(); tasks_.pop_front()) {
    waiting_task& task = *tasks_.front();
    lock.unlock();
    try {
      task.what();
    } catch (...) {
      task.failure = std::current_exception();
    }
    lock.lock();
    task.done = true;
    done_.notify_all();
  }
  return !stopping_;
}

}  // namespace serving
RLCORE_END
#endif
