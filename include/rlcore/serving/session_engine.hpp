// The rollout engine as a server's engine: a thread that makes passes while there is work.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/serving/generator.hpp"

RLCORE_BEGIN
namespace serving {

/// Drives a rollout::session and hands its tokens to the listeners of the jobs.
template <rlcore::device Device>
class session_engine final : public generator {
 public:
  /// `failed` is called, by the engine's thread, if the engine breaks: all jobs are then told, and later ones refused.
  /// Model and workspace have to outlive the engine, and nobody else may use them. Throws config_error for limits that
  /// leave no room for a sequence.
  session_engine(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                 const rollout::session_limits& limits, std::function<void(const std::string&)> failed)
      : session_(model, space, limits), failed_(std::move(failed)), thread_([this] { run(); }) {}
  session_engine(const session_engine&) = delete;
  session_engine& operator=(const session_engine&) = delete;
  ~session_engine() override {
    stopping_ = true;
    thread_.join();
  }

  std::vector<rollout::ticket> submit(std::vector<rollout::job> jobs, std::shared_ptr<job_listener> listener) override {
    const std::lock_guard lock(mutex_);  // held until the tickets are known to whoever hears of them
    if (!problem_.empty()) {
      listener->on_failure(problem_);
      return std::vector<rollout::ticket>(jobs.size());
    }
    std::vector<rollout::ticket> tickets = session_.submit(std::move(jobs));
    for (std::size_t i = 0; i < tickets.size(); ++i) listeners_.emplace(tickets[i], heard_by{listener, i});
    return tickets;
  }
  void cancel(rollout::ticket which) override { session_.cancel(which); }
  engine_load load() const override {
    const rollout::session_statistics s = session_.statistics();
    return {.running = s.running,
            .waiting = s.waiting,
            .cache_usage = s.pages > 0 ? static_cast<double>(s.pages_used) / static_cast<double>(s.pages) : 0,
            .tokens_fed = s.tokens_fed,
            .tokens_drawn = s.tokens_drawn,
            .preemptions = s.preemptions,
            .prefix_hits = s.prefix_hits,
            .pictures_read = s.pictures_read};
  }
  /// Ends all jobs of this moment.
  void cancel_all() {
    std::vector<rollout::ticket> all;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [ticket, to] : listeners_) all.push_back(ticket);
    }
    for (const rollout::ticket t : all) session_.cancel(t);
  }
  /// Tokens of a sequence at most.
  std::int64_t max_length() const noexcept { return session_.max_length(); }
  /// Tokens that the cache holds.
  std::int64_t cache_tokens() const { return session_.statistics().pages * std::int64_t{kv_page}; }

 private:
  struct heard_by {
    std::shared_ptr<job_listener> listener;
    std::size_t job = 0;
  };
  struct reporter : rollout::session_listener {
    session_engine& engine;
    explicit reporter(session_engine& e) : engine(e) {}
    void on_prompt(const rollout::prompt_token& t) {
      if (const heard_by to = engine.find(t.of); to.listener) to.listener->on_prompt(to.job, scored(t));
    }
    void on_token(const rollout::drawn_token& t) {
      if (const heard_by to = engine.find(t.of); to.listener) to.listener->on_token(to.job, scored(t));
    }
    void on_failure(rollout::ticket of, const std::string& why) {
      if (const heard_by to = engine.find(of); to.listener) to.listener->on_failure(why);
    }
    void on_end(rollout::ticket of, rollout::finish why) {
      const heard_by to = engine.find(of);
      if (to.listener && why != rollout::finish::failed) to.listener->on_end(to.job, why);
      const std::lock_guard lock(engine.mutex_);
      engine.listeners_.erase(of);
    }
  };
  template <class Token>
  static scored_token scored(const Token& t) {
    return {t.token, t.logp, {t.most_likely.begin(), t.most_likely.end()}};
  }

  heard_by find(rollout::ticket of) const {
    const std::lock_guard lock(mutex_);
    const auto found = listeners_.find(of);
    return found == listeners_.end() ? heard_by{} : found->second;
  }

  void run() {
    try {
      reporter report(*this);
      while (!stopping_)
        if (!session_.step(report)) session_.wait(std::chrono::milliseconds(50));
    } catch (const std::exception& e) {
      fail(e.what());
    }
  }
  void fail(const std::string& problem) {
    std::unordered_map<rollout::ticket, heard_by> told;
    {
      const std::lock_guard lock(mutex_);
      problem_ = problem.empty() ? "the engine has stopped" : problem;
      told.swap(listeners_);
    }
    for (const auto& [ticket, to] : told) to.listener->on_failure(problem_);
    failed_(problem_);
  }

  rollout::session<Device> session_;
  std::function<void(const std::string&)> failed_;
  mutable std::mutex mutex_;
  std::unordered_map<rollout::ticket, heard_by> listeners_;
  std::string problem_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;  // last: it uses all others
};

}  // namespace serving
RLCORE_END
