// Graceful shutdown on SIGINT (Ctrl-C), SIGTERM and SIGHUP: the first signal stops the run at a resumable point, the
// second ends it at once.
#pragma once

#include <signal.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

inline volatile std::sig_atomic_t& asked_signal() noexcept {
  static volatile std::sig_atomic_t number = 0;
  return number;
}

/// Async-signal-safe. `timeout` and exiting shells signal both the process and its group: a signal within a quarter of
/// a second of the first is a duplicate. SIGHUP comes from the terminal and from its shell, at any delay, and never
/// counts as the second.
extern "C" inline void rlcore_ask_to_stop(int number) {
  static std::atomic<std::int64_t> first{0};
  static_assert(std::atomic<std::int64_t>::is_always_lock_free);
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000 + 1;
  if (std::int64_t before = 0; !first.compare_exchange_strong(before, now)) {
    if (number != SIGHUP && now - before > 250) _exit(128 + number);
    return;
  }
  asked_signal() = number;
  const int problem = errno;
  termios unused{};
  const bool live = tcgetattr(STDERR_FILENO, &unused) == 0;  // a terminal may show a progress line with ^C
  constexpr std::string_view wiped = "\r\033[2K", below = "\n",
                             text = "rlcore: stopping after this step; once more ends at once, without a checkpoint\n";
  [[maybe_unused]] auto written =
      write(STDERR_FILENO, live ? wiped.data() : below.data(), (live ? wiped : below).size());
  written = write(STDERR_FILENO, text.data(), text.size());
  errno = problem;
}

}  // namespace detail

/// The signal that asked the run to stop, SIGINT, SIGTERM or SIGHUP; 0 if none. The exit code is 128 more.
inline int asked_to_stop() noexcept { return detail::asked_signal(); }

/// "SIGINT (Ctrl-C)", "SIGTERM" or "SIGHUP (the terminal closed)".
inline const char* name_of_stop() noexcept {
  return asked_to_stop() == SIGINT   ? "SIGINT (Ctrl-C)"
         : asked_to_stop() == SIGHUP ? "SIGHUP (the terminal closed)"
                                     : "SIGTERM";
}

/// While an object lives, in any thread, signals request a stop instead of ending the process. Signals ignored at start
/// stay ignored (nohup). SIGPIPE is ignored, since Ctrl-C also ends a `tee` behind the run.
class stop_signals {
 public:
  stop_signals() {
    const std::lock_guard lock(mutex());
    if (living()++ > 0) return;
    struct sigaction ask{};
    ask.sa_handler = &detail::rlcore_ask_to_stop;
    sigemptyset(&ask.sa_mask);
    ask.sa_flags = SA_RESTART;
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], nullptr, &before()[i]);
      if (before()[i].sa_handler != SIG_IGN) sigaction(signals[i], signals[i] == SIGPIPE ? &ignore : &ask, nullptr);
    }
  }
  ~stop_signals() {
    const std::lock_guard lock(mutex());
    if (--living() > 0) return;
    for (std::size_t i = 0; i < signals.size(); ++i) sigaction(signals[i], &before()[i], nullptr);
  }
  stop_signals(const stop_signals&) = delete;
  stop_signals& operator=(const stop_signals&) = delete;

 private:
  static constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static int& living() {
    static int count = 0;
    return count;
  }
  static std::array<struct sigaction, signals.size()>& before() {
    static std::array<struct sigaction, signals.size()> actions{};
    return actions;
  }
};

/// Thrown out of sampling when the run is asked to stop; sampling changes no checkpointed state.
struct sampling_interrupted : std::exception {
  const char* what() const noexcept override { return "sampling was interrupted"; }
};

}  // namespace train
RLCORE_END
