// The rollout engine as a server's engine.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/rollout/session.hpp"
#include "rlcore/rollout/session_memory.hpp"
#include "rlcore/serving/generator.hpp"

RLCORE_BEGIN
namespace serving {

/// A rollout::session that runs in an engine_thread and passes its tokens to the jobs' listeners.
template <rlcore::device Device>
class session_engine final : public generator, private scheduled_work {
 public:
  /// The engine's thread calls `failed` with a sentence if a pass fails: its jobs are notified, and the engine starts
  /// anew. If it cannot, or if the ranks of a partitioned model have lost each other, later jobs are rejected. Model,
  /// workspace, thread and the ranks of a partitioned model must outlive the engine; all but the thread are used only
  /// in that thread. Throws config_error for limits that leave no room for a sequence.
  session_engine(const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                 const rollout::session_limits& limits, engine_thread& thread,
                 std::function<void(const std::string&)> failed, const rollout::rank_group<Device>* group = nullptr)
      : model_(model), space_(space), limits_(limits), thread_(thread), failed_(std::move(failed)), group_(group) {
    build();
    max_length_ = session_->max_length();
    thread_.add(*this);
  }
  session_engine(const session_engine&) = delete;
  session_engine& operator=(const session_engine&) = delete;
  ~session_engine() override { thread_.remove(*this); }

  void check(const rollout::job& asked) const override {
    const std::lock_guard lock(mutex_);
    if (session_) session_->check(asked);
  }
  std::vector<rollout::ticket> submit(std::vector<rollout::job> jobs, std::shared_ptr<job_listener> listener) override {
    const std::lock_guard lock(mutex_);  // held until the tickets are registered with their listeners
    if (ending_) {
      for (std::size_t i = 0; i < jobs.size(); ++i) listener->on_end(i, rollout::finish::cancelled);
      return std::vector<rollout::ticket>(jobs.size());
    }
    if (!problem_.empty()) {
      listener->on_failure(problem_);
      return std::vector<rollout::ticket>(jobs.size());
    }
    std::vector<rollout::ticket> tickets = session_->submit(std::move(jobs));
    for (std::size_t i = 0; i < tickets.size(); ++i) listeners_.emplace(tickets[i], listener_entry{listener, i});
    thread_.wake();
    return tickets;
  }
  void cancel(rollout::ticket which) override {
    const std::lock_guard lock(mutex_);
    if (session_) session_->cancel(which);
    thread_.wake();
  }
  engine_load load() const override {
    const std::lock_guard lock(mutex_);
    if (!session_) return {.broken = !problem_.empty()};
    const rollout::session_statistics s = session_->statistics();
    return {.running = s.running,
            .waiting = s.waiting,
            .cache_usage = s.pages > 0 ? static_cast<double>(s.pages_used) / static_cast<double>(s.pages) : 0,
            .tokens_fed = s.tokens_fed,
            .tokens_drawn = s.tokens_drawn,
            .preemptions = s.preemptions,
            .prefix_hits = s.prefix_hits,
            .images_read = s.images_read,
            .broken = !problem_.empty()};
  }
  /// Cancels all jobs, and from now on new ones immediately.
  void cancel_all() {
    std::vector<rollout::ticket> all;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      for (const auto& [ticket, to] : listeners_) all.push_back(ticket);
    }
    for (const rollout::ticket t : all) cancel(t);
  }
  /// Maximum tokens of a sequence.
  std::int64_t max_length() const noexcept { return max_length_; }
  /// Tokens that the cache holds.
  std::int64_t cache_tokens() const { return session_->statistics().pages * std::int64_t{kv_page}; }

  // In the engine's thread (engine_thread::run()).

  /// Prefills all sequences again with the current weights; drops the old KV cache.
  void forget_prefixes() {
    if (!session_) return;
    session_->pause();
    session_->resume();
  }
  /// Frees the KV cache. Only cancelled jobs may exist, and none may be submitted before build().
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    session_.reset();
    listeners_.clear();  // of cancelled jobs; the next session reuses their tickets
  }
  /// Allocates it again; an engine that rejected jobs takes them again. Throws like the constructor.
  void build() {
    auto made = std::make_unique<rollout::session<Device>>(model_, space_, limits_, group_);
    const std::lock_guard lock(mutex_);
    session_ = std::move(made), released_ = false;
    if (!lost_) problem_.clear();
  }
  /// For weights that have just been replaced: prefills all sequences again, and starts an engine that rejected jobs.
  /// Throws like the constructor, and error if the ranks have lost each other.
  void use_new_weights() {
    if (lost_) throw error(problem_);
    if (session_) return forget_prefixes();
    if (!released_) build();
  }

 private:
  struct listener_entry {
    std::shared_ptr<job_listener> listener;
    std::size_t job = 0;
  };
  struct reporter : rollout::session_listener {
    session_engine& engine;
    explicit reporter(session_engine& e) : engine(e) {}
    void on_prompt(const rollout::prompt_token& t) {
      if (const listener_entry to = engine.find(t.of); to.listener) to.listener->on_prompt(to.job, scored(t));
    }
    void on_token(const rollout::drawn_token& t) {
      if (const listener_entry to = engine.find(t.of); to.listener) to.listener->on_token(to.job, scored(t));
    }
    void on_failure(rollout::ticket of, const std::string& why) {
      if (const listener_entry to = engine.find(of); to.listener) to.listener->on_failure(why);
    }
    void on_end(rollout::ticket of, rollout::finish why) {
      const listener_entry to = engine.find(of);
      if (to.listener && why != rollout::finish::failed) to.listener->on_end(to.job, why);
      const std::lock_guard lock(engine.mutex_);
      engine.listeners_.erase(of);
    }
  };
  template <class Token>
  static scored_token scored(const Token& t) {
    return {t.token, t.logp, {t.most_likely.begin(), t.most_likely.end()}, t.rank};
  }

  listener_entry find(rollout::ticket of) const {
    const std::lock_guard lock(mutex_);
    const auto found = listeners_.find(of);
    return found == listeners_.end() ? listener_entry{} : found->second;
  }

  bool take_turn() override {
    if (!session_) return false;
    try {
      reporter report(*this);
      return session_->step(report);
    } catch (const std::exception& e) {
      start_anew(e.what());
      return false;
    }
  }
  /// After a pass that threw: another pass would feed the same sequences and throw again.
  void start_anew(std::string problem) {
    if (problem.empty()) problem = "the engine has stopped";
    std::unordered_map<rollout::ticket, listener_entry> told;
    {
      const std::lock_guard lock(mutex_);
      problem_ = problem, lost_ = group_ != nullptr;
      session_.reset();
      told.swap(listeners_);
    }
    for (const auto& [ticket, to] : told) to.listener->on_failure(problem);
    failed_(problem);
    if (lost_) return;
    try {
      build();
    } catch (const std::exception& e) {
      failed_(std::string("the engine cannot start again: ") + e.what());
    }
  }

  const nn::causal_lm<Device>& model_;
  nn::workspace<Device>& space_;
  const rollout::session_limits limits_;
  engine_thread& thread_;
  std::function<void(const std::string&)> failed_;
  const rollout::rank_group<Device>* const group_;
  std::int64_t max_length_ = 0;
  bool lost_ = false, released_ = false;               ///< used in the engine's thread; problem_ is for all threads
  std::unique_ptr<rollout::session<Device>> session_;  ///< changed only by the engine's thread, under the mutex
  mutable std::mutex mutex_;
  std::unordered_map<rollout::ticket, listener_entry> listeners_;
  std::string problem_;
  bool ending_ = false;
};

}  // namespace serving
RLCORE_END
