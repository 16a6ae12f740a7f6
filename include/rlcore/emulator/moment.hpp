// The point in a stream that an event records.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "rlcore/core/abi.hpp"

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

}  // namespace ascend::emulated
RLCORE_END
