// The signals that end a server.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace serving {

/// Holds SIGINT and SIGTERM back from this thread and from all that are started while it lives: one thread waits for
/// them. Make it before the first thread, since a signal goes to whichever thread does not hold it back.
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
  /// The signal that came, or 0 after so long.
  int wait(std::chrono::milliseconds longest) const {
    const timespec time{longest.count() / 1000, longest.count() % 1000 * 1000000};
    return std::max(sigtimedwait(&set_, nullptr, &time), 0);
  }
  /// While one lives, a signal does to this thread what it did before: as a rule it ends the process at once.
  class let_through {
   public:
    /// In the thread that made `from`.
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
