// Device thread: engines take turns, one pass each, interleaved with tasks that use the device.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// Interface of an engine that shares the thread.
class turn_taker {
 public:
  virtual ~turn_taker() = default;
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
  void add(turn_taker& one) {
    run([&] { all_.push_back(&one); });
  }
  /// `one` gets no more turns when this returns.
  void remove(turn_taker& one) {
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
  std::vector<turn_taker*> all_;  ///< changed by tasks
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
    for (turn_taker* const one : all_) worked |= one->take_turn();
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
