// What Ctrl-C and SIGTERM do to a run: the first asks it to stop where it can go on later, the second ends it at once.
#pragma once

#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <exception>
#include <mutex>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

inline volatile std::sig_atomic_t& asked_signal() noexcept {
  static volatile std::sig_atomic_t number = 0;
  return number;
}

/// Only what a signal handler may do.
extern "C" inline void rlcore_ask_to_stop(int number) {
  if (asked_signal() != 0) _exit(128 + number);
  asked_signal() = number;
  const int problem = errno;
  termios unused{};
  const bool live = tcgetattr(STDERR_FILENO, &unused) == 0;  // a line of progress is there, and ^C in it
  constexpr std::string_view wiped = "\r\033[2K", below = "\n",
                             text = "rlcore: stopping after this step; once more ends at once, without a checkpoint\n";
  [[maybe_unused]] auto written =
      write(STDERR_FILENO, live ? wiped.data() : below.data(), (live ? wiped : below).size());
  written = write(STDERR_FILENO, text.data(), text.size());
  errno = problem;
}

}  // namespace detail

/// The signal that asked the run to stop, SIGINT or SIGTERM; 0 if there was none. The exit code is 128 more.
inline int asked_to_stop() noexcept { return detail::asked_signal(); }

/// "SIGINT (Ctrl-C)" or "SIGTERM".
inline const char* name_of_stop() noexcept { return asked_to_stop() == SIGINT ? "SIGINT (Ctrl-C)" : "SIGTERM"; }

/// While one lives, in any thread, the signals ask instead of ending the process. A signal that the process was started
/// to ignore stays ignored (nohup).
class stop_signals {
 public:
  stop_signals() {
    const std::lock_guard lock(mutex());
    if (living()++ > 0) return;
    struct sigaction ask {};
    ask.sa_handler = &detail::rlcore_ask_to_stop;
    sigemptyset(&ask.sa_mask);
    ask.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < signals.size(); ++i) {
      sigaction(signals[i], nullptr, &before()[i]);
      if (before()[i].sa_handler != SIG_IGN) sigaction(signals[i], &ask, nullptr);
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
  static constexpr std::array signals{SIGINT, SIGTERM};
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static int& living() {
    static int count = 0;
    return count;
  }
  static std::array<struct sigaction, 2>& before() {
    static std::array<struct sigaction, 2> actions{};
    return actions;
  }
};

/// Thrown out of sampling, which changes nothing that a checkpoint holds, when the run is asked to stop.
struct sampling_interrupted : std::exception {
  const char* what() const noexcept override { return "sampling was interrupted"; }
};

}  // namespace trainer
RLCORE_END
