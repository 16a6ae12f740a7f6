// Signal handling of the server (SIGINT, SIGTERM).
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// Blocks SIGINT and SIGTERM in this thread and in all threads started during its lifetime; one thread waits for them.
/// Create it before the first thread, since a signal is delivered to any thread that does not block it.
class awaited_signals {
 public:
  awaited_signals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  awaited_signals(const awaited_signals&) = delete;
  awaited_signals& operator=(const awaited_signals&) = delete;
  ~awaited_signals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// The received signal, or 0 after the timeout.
  int wait(std::chrono::milliseconds longest) const {
    const timespec time{longest.count() / 1000, longest.count() % 1000 * 1000000};
    return std::max(sigtimedwait(&set_, nullptr, &time), 0);
  }
  /// Restores the previous signal handling of this thread for its lifetime: usually a signal then ends the process at
  /// once.
  class let_through {
   public:
    /// Call in the thread that created `from`.
    explicit let_through(const awaited_signals& from) : from_(from) {
      pthread_sigmask(SIG_SETMASK, &from_.before_, nullptr);
    }
    let_through(const let_through&) = delete;
    let_through& operator=(const let_through&) = delete;
    ~let_through() { pthread_sigmask(SIG_BLOCK, &from_.set_, nullptr); }

   private:
    const awaited_signals& from_;
  };

 private:
  sigset_t set_, before_;
};

}  // namespace serving
RLCORE_END
