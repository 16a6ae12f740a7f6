// Threads that run tools and ask environments.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rlcore/agent/environment.hpp"

RLCORE_BEGIN
namespace agent {

/// A turn that waits for its answer: calls of tools, or, without calls, what the environment says.
struct open_turn {
  std::size_t request = 0;
  std::int64_t length = 0;             ///< of the response
  std::int32_t last_token = 0;         ///< of the turn
  bool goes_on = true;                 ///< no limit is reached
  std::vector<tool_request> calls;     ///< to run
  std::vector<tool*> tools;            ///< of each call; null: unknown
  environment* asked = nullptr;        ///< without calls: whom to ask
  const turn_request* said = nullptr;  ///< the question

  std::vector<std::string> texts;    ///< replies of tools; at first of unknown ones what is wrong
  std::optional<turn_reply> answer;  ///< of the environment
  std::uint32_t failures = 0;
  double reward = 0, seconds = 0;
  std::string failure = {};        ///< of the environment
  std::exception_ptr broken = {};  ///< ends the run

  std::size_t missing = 0, started = 0;  ///< for the pool
};

/// Answers turns in `settings.workers` threads, the oldest first; all calls of a turn at the same time.
class answer_pool {
 public:
  /// Starts the threads.
  explicit answer_pool(const conversation_settings& settings);
  answer_pool(const answer_pool&) = delete;
  answer_pool& operator=(const answer_pool&) = delete;
  /// Waits for what runs.
  ~answer_pool();

  /// `turn` must outlive its answer.
  void push(open_turn& turn);
  /// A turn that is answered; null: none. With `wait` it waits for one.
  open_turn* next(bool wait);
  /// Waits for as many turns, the number of all that are open.
  std::vector<open_turn*> next_all(std::size_t count);

 private:
  void work();
  /// Runs call `i`, or asks the environment. The lock is held at the beginning and the end, not in between.
  void run_call(open_turn& t, std::size_t i, std::unique_lock<std::mutex>& lock);
  void ask(open_turn& t, std::unique_lock<std::mutex>& lock);

  const conversation_settings settings_;
  std::mutex mutex_;
  std::condition_variable work_, ended_;
  std::deque<open_turn*> queue_, ready_;  ///< with something to start; answered
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

/// f(0) to f(count - 1) in as many threads. Throws what one of them threw.
template <class F>
void run_all(std::size_t count, std::int64_t threads, F&& f);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <algorithm>
#include <chrono>
#include <utility>

#include "rlcore/core/error.hpp"
#include "rlcore/core/timeline.hpp"

RLCORE_BEGIN
namespace agent {

RLCORE_INLINE answer_pool::answer_pool(const conversation_settings& settings) : settings_(settings) {
  for (std::int64_t i = 0; i < std::max<std::int64_t>(1, settings_.workers); ++i)
    threads_.emplace_back([this, rank = timeline::rank_here()] {
      timeline::name_thread(rank, "answers");
      work();
    });
}

RLCORE_INLINE answer_pool::~answer_pool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& t : threads_) t.join();
}

RLCORE_INLINE void answer_pool::push(open_turn& turn) {
  const std::lock_guard lock(mutex_);
  turn.missing = std::max<std::size_t>(1, turn.calls.size());
  queue_.push_back(&turn);
  work_.notify_all();
}

RLCORE_INLINE open_turn* answer_pool::next(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) {
    const timeline::span traced("wait for an answer");
    ended_.wait(lock, [&] { return !ready_.empty(); });
  }
  if (ready_.empty()) return nullptr;
  open_turn* t = ready_.front();
  ready_.pop_front();
  return t;
}

RLCORE_INLINE std::vector<open_turn*> answer_pool::next_all(std::size_t count) {
  std::unique_lock lock(mutex_);
  const timeline::span traced("wait for answers", "answers", static_cast<std::int64_t>(count));
  ended_.wait(lock, [&] { return ready_.size() == count; });
  const std::vector<open_turn*> all(ready_.begin(), ready_.end());
  ready_.clear();
  return all;
}

RLCORE_INLINE void answer_pool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    open_turn& t = *queue_.front();
    const std::size_t i = t.started++;
    if (t.started >= t.calls.size()) queue_.pop_front();
    const auto begin = std::chrono::steady_clock::now();
    if (t.calls.empty())
      ask(t, lock);
    else
      run_call(t, i, lock);
    const auto end = std::chrono::steady_clock::now();
    if (timeline::on()) timeline::record("answer", begin, end, "call", static_cast<std::int64_t>(i));
    t.seconds += std::chrono::duration<double>(end - begin).count();
    if (--t.missing > 0) continue;
    ready_.push_back(&t);
    ended_.notify_all();
  }
}

RLCORE_INLINE void answer_pool::run_call(open_turn& t, std::size_t i, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  tool_reply reply;
  std::optional<std::string> failure;
  std::exception_ptr broken;
  if (t.tools[i] == nullptr) {
    failure = t.texts[i];
  } else {
    try {
      reply = t.tools[i]->call(t.calls[i]);
    } catch (const std::exception& e) {
      failure = e.what();
      const bool of_call =
          dynamic_cast<const tool_error*>(&e) != nullptr && dynamic_cast<const tool_broken*>(&e) == nullptr;
      if (!of_call && !settings_.failures_as_text) broken = std::current_exception();
    } catch (...) {
      failure = "an exception without a text";
      if (!settings_.failures_as_text) broken = std::current_exception();
    }
  }
  std::string said = failure ? "Error executing tool '" + t.calls[i].name + "': " + *failure : std::move(reply.text);
  said = cut_tool_text(clean_tool_text(said), settings_.max_tool_text, settings_.cut);
  lock.lock();
  t.texts[i] = std::move(said);
  t.failures += failure.has_value(), t.reward += reply.reward;
  if (broken && !t.broken) t.broken = broken;
}

RLCORE_INLINE void answer_pool::ask(open_turn& t, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  turn_reply answer;
  std::exception_ptr broken;
  try {
    answer = t.asked->step(*t.said);
    answer.text = clean_tool_text(answer.text);
    if (t.goes_on && answer.text.empty() && !answer.done && t.asked->what() == environment::kind::agent)
      throw tool_error("the agent says nothing, and the conversation is not done");
  } catch (const tool_error& e) {
    t.failure = "row " + std::to_string(t.said->row) + ", turn " + std::to_string(t.said->number) + ": " + e.what();
    broken = std::make_exception_ptr(data_error(t.failure));
  } catch (...) {
    broken = std::current_exception();
  }
  lock.lock();
  if (!t.failure.empty() && settings_.zero_on_failure && t.asked->what() == environment::kind::agent)
    answer = {}, answer.done = true, t.failures = 1;
  else
    t.reward = answer.reward, t.broken = broken;
  t.answer = std::move(answer);
}

template <class F>
void run_all(std::size_t count, std::int64_t threads, F&& f) {
  std::mutex mutex;
  std::size_t next = 0;
  std::exception_ptr failure;
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (next >= count) return;
      const std::size_t i = next++;
      lock.unlock();
      try {
        f(i);
      } catch (...) {
        lock.lock();
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> all;
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(threads, 1, static_cast<std::int64_t>(count) + 1); ++i)
      all.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace agent
RLCORE_END
#endif
