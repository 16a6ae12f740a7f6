// A stream: a queue of tasks, and the moments of the virtual time at which they run.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/random.hpp"
#include "rlcore/emulator/errors.hpp"
#include "rlcore/emulator/memory.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// Reached once, or passed over because the stream stopped after a failure or was shut down.
class moment {
 public:
  using clock = std::chrono::steady_clock;

  /// Marks the point as reached; `code` is 0, or the error that stopped the work before it.
  void reach(int code) {
    {
      const std::lock_guard lock(mutex_);
      if (reached_) return;
      reached_ = true;
      code_ = code;
      time_ = clock::now();
    }
    changed_.notify_all();
  }
  /// Blocks until it is reached; returns its code.
  int wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached_; });
    return code_;
  }
  bool reached() const {
    const std::lock_guard lock(mutex_);
    return reached_ && code_ == 0;
  }
  clock::time_point time() const {
    const std::lock_guard lock(mutex_);
    return time_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  int code_ = 0;
  clock::time_point time_;
};

/// A task of a stream.
struct stream_task {
  const char* name = "";
  std::function<void()> run;
  std::shared_ptr<moment> mark;  ///< reached when the task is done or dropped
};

/// Failure state shared by the streams of a context. With `stop` a failure stops all of them.
struct failure_state {
  std::atomic<bool> stop{false};
  std::atomic<int> code{0};
};

/// A stream: its tasks run in order on a thread of its own, which the first task starts.
class stream_queue {
 public:
  /// `number` identifies the stream in the random delays.
  stream_queue(memory_system& memory, std::shared_ptr<failure_state> failure, void* its_context, int its_device,
               std::uint32_t number, const settings& machine)
      : context(its_context),
        device(its_device),
        memory_(memory),
        failure_(std::move(failure)),
        number_(number),
        delay_(static_cast<std::uint32_t>(machine.delay_microseconds)),
        delays_(random_key{machine.seed}.child(0x64656cu)) {}
  stream_queue(const stream_queue&) = delete;
  stream_queue& operator=(const stream_queue&) = delete;

  void* const context;
  const int device;

  /// Appends a task to the stream `self`. The first task starts its thread.
  static int submit(const std::shared_ptr<stream_queue>& self, stream_task task);

  bool idle() const {
    const std::lock_guard lock(mutex_);
    return finished_ == submitted_;
  }
  std::uint64_t pending() const {
    const std::lock_guard lock(mutex_);
    return submitted_ - finished_;
  }
  bool is_this_thread() const {
    const std::lock_guard lock(mutex_);
    return worker_.get_id() == std::this_thread::get_id();
  }

  /// Waits for all tasks submitted so far; a negative time means no timeout. Returns false on timeout.
  bool wait(std::chrono::milliseconds longest = std::chrono::milliseconds(-1)) const;

  /// Reports the asynchronous error, if any, once. If the stream stops at failures, every call reports it.
  int take_error();

  /// Refuses further tasks and ends the thread after the remaining tasks; with `drop`, discards them.
  void close(bool drop);
  /// Waits for the thread of a closed stream; a negative time means no timeout. A thread that does not end in time is
  /// detached.
  void join(std::chrono::milliseconds longest = std::chrono::milliseconds(-1));

 private:
  void work();

  outcome_error run(stream_task& task);

  memory_system& memory_;
  const std::shared_ptr<failure_state> failure_;
  const std::uint32_t number_, delay_;
  const random_key delays_;
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  std::condition_variable more_;
  std::deque<stream_task> queue_;
  std::uint64_t submitted_ = 0, finished_ = 0;
  bool closed_ = false, over_ = false;
  int error_ = 0;
  std::string error_text_;
  std::thread worker_;
};

}  // namespace ascend::emulated
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated {

RLCORE_INLINE int stream_queue::submit(const std::shared_ptr<stream_queue>& self, stream_task task) {
  if (const int code = self->failure_->code.load(); code != 0) {
    if (task.mark != nullptr) task.mark->reach(code);
    return fail(code, std::string(task.name) + ": an earlier task failed and the stream stops at failures");
  }
  {
    const std::lock_guard lock(self->mutex_);
    if (self->closed_) {
      if (task.mark != nullptr) task.mark->reach(errors::parameter);
      return fail(errors::parameter, std::string(task.name) + ": the stream is being destroyed");
    }
    if (!self->worker_.joinable()) {
      try {
        self->worker_ = std::thread([self] { self->work(); });
      } catch (const std::system_error& e) {
        if (task.mark != nullptr) task.mark->reach(errors::no_resources);
        return fail(errors::no_resources, std::string("no thread for a stream: ") + e.what());
      }
    }
    self->queue_.push_back(std::move(task));
    ++self->submitted_;
  }
  self->more_.notify_one();
  return 0;
}

RLCORE_INLINE bool stream_queue::wait(std::chrono::milliseconds longest) const {
  std::unique_lock lock(mutex_);
  const std::uint64_t target = submitted_;
  const auto done = [&] { return finished_ >= target; };
  if (longest.count() >= 0) return done_.wait_for(lock, longest, done);
  done_.wait(lock, done);
  return true;
}

RLCORE_INLINE int stream_queue::take_error() {
  std::string text;
  int code = 0;
  {
    const std::lock_guard lock(mutex_);
    code = std::exchange(error_, 0);
    text = std::move(error_text_);
    error_text_.clear();
  }
  if (code == 0) {
    code = failure_->code.load();
    text = "an earlier task failed and the stream stops at failures";
  }
  return code == 0 ? 0 : fail(code, std::move(text));
}

RLCORE_INLINE void stream_queue::close(bool drop) {
  std::deque<stream_task> dropped;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    if (drop) dropped.swap(queue_);
  }
  more_.notify_all();
  for (stream_task& t : dropped) t.run = nullptr;  // as for tasks that ran
  const std::lock_guard lock(mutex_);
  finished_ += dropped.size();
  for (const stream_task& t : dropped)
    if (t.mark != nullptr) t.mark->reach(errors::parameter);
  done_.notify_all();
}

RLCORE_INLINE void stream_queue::join(std::chrono::milliseconds longest) {
  std::thread worker;
  {
    std::unique_lock lock(mutex_);
    if (!worker_.joinable()) return;
    const auto over = [&] { return over_; };
    const bool on_worker = worker_.get_id() == std::this_thread::get_id();
    if (on_worker || (longest.count() >= 0 && !done_.wait_for(lock, longest, over))) {
      worker_.detach();
      return;
    }
    worker = std::move(worker_);
  }
  worker.join();
}

RLCORE_INLINE void stream_queue::work() {
  std::unique_lock lock(mutex_);
  for (std::uint32_t n = 0;; ++n) {
    more_.wait(lock, [&] { return closed_ || !queue_.empty(); });
    if (queue_.empty()) break;
    stream_task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    outcome_error outcome{0, ""};
    int code = failure_->code.load();
    if (code == 0) {
      if (delay_ != 0) std::this_thread::sleep_for(std::chrono::microseconds(delays_.below(delay_ + 1, number_, n)));
      outcome = run(task);
      code = outcome.code;
    }
    task.run = nullptr;  // destroys its captures before waiters are notified
    lock.lock();
    if (outcome.code != 0) {
      if (failure_->stop.load()) failure_->code.store(outcome.code);
      error_ = outcome.code;
      error_text_ = std::string(task.name) + ": " + outcome.message;
    }
    ++finished_;
    if (task.mark != nullptr) task.mark->reach(code);  // with the lock: a waiter on either sees both
    done_.notify_all();
  }
  over_ = true;
  done_.notify_all();
}

RLCORE_INLINE outcome_error stream_queue::run(stream_task& task) {
  if (!task.run) return {0, ""};
  memory_use use;
  use.device = device;
  current_use() = &use;
  outcome_error outcome{0, ""};
  try {
    task.run();
  } catch (const outcome_error& e) {
    outcome = e;
  } catch (const std::bad_alloc&) {
    outcome = {errors::internal, "the host has no memory left for the emulator"};
  } catch (const std::exception& e) {
    outcome = {errors::core_exception, e.what()};
  } catch (...) {
    outcome = {errors::core_exception, "an exception of unknown type"};
  }
  current_use() = nullptr;
  if (memory_.release(use) && outcome.code == 0)
    outcome = {errors::core_exception, "memory was freed while the task used it"};
  return outcome;
}

}  // namespace ascend::emulated
RLCORE_END
#endif
