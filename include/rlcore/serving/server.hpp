// Declaration of a whole server from a command line. The CMake target rlcore::server has it compiled for any_device: a
// program that links it includes this header and compiles in seconds. A program for another device includes serve.hpp.
#pragma once

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <vector>

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
  class signal_mask_guard {
   public:
    /// Call in the thread that created `from`.
    explicit signal_mask_guard(const awaited_signals& from) : from_(from) {
      pthread_sigmask(SIG_SETMASK, &from_.before_, nullptr);
    }
    signal_mask_guard(const signal_mask_guard&) = delete;
    signal_mask_guard& operator=(const signal_mask_guard&) = delete;
    ~signal_mask_guard() { pthread_sigmask(SIG_BLOCK, &from_.set_, nullptr); }

   private:
    const awaited_signals& from_;
  };

 private:
  sigset_t set_, before_;
};

}  // namespace serving

class any_device;

namespace train {
class options;
}

namespace serving {

/// Serves until SIGINT or SIGTERM, and returns its number. The devices' ranks share the model. While weights are read a
/// signal ends the process at once. On shutdown requests have --shutdown-timeout; a second signal ends the process.
/// Create `signals` before the device, which starts threads. Throws config_error, file_error and format_error before
/// the first request is accepted.
template <class Device>
int serve(const std::vector<std::unique_ptr<Device>>& devices, const train::options& opt,
          const awaited_signals& signals);

#if defined(RLCORE_COMPILED)
/// In src/serve.cpp.
extern template int serve(const std::vector<std::unique_ptr<any_device>>&, const train::options&,
                          const awaited_signals&);
#endif

}  // namespace serving
RLCORE_END
