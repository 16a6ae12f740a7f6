// Holds a task of the emulated machine for as long as a test wants.
#pragma once

#include <condition_variable>
#include <mutex>

namespace npu_test {

/// Holds a task until it is opened.
class gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    entered_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  /// Until a task stands in it.
  void wait_for_visitor() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, entered_ = false;
};

}  // namespace npu_test
