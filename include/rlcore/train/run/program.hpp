// Main wrapper of every program: errors become one line and exit code 1.
#pragma once

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <thread>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/launch.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/train/run/interrupt.hpp"

RLCORE_BEGIN
namespace train {

/// Runs f and returns the exit code of main: 0; 128 and the number of a signal that stopped it, or of SIGPIPE if its
/// output pipe is closed; or 1 after printing "<program>: <message>" to stderr. When all processes of mpirun fail on
/// the same command line, the first of them prints the message. The remaining processes wait 20 seconds before they
/// print theirs. A file that grows beyond `ulimit -f` is an error of its write; the signal would end the process
/// without a word. `spare` says what takes less memory, for a program that has run out of it.
template <class F>
int run_program(const char* program, F&& f,
                const char* spare = "smaller batches, rlcore.logits_memory_mb or rlcore.max_decode_batch") noexcept {
  ::signal(SIGXFSZ, SIG_IGN);
  const auto failed = [&](const char* message) {
    std::fflush(stdout);
    if (!detail::ranks_started() && parallel::rank_of_environment() > 0)
      std::this_thread::sleep_for(std::chrono::seconds(20));  // mpirun ends all processes as soon as one has ended
    const std::string text = std::string(program) + ": " + displayed_option_names().in(message);
    std::fprintf(stderr, "%s\n", fitted(text, terminal_columns(stderr)).c_str());
    return 1;
  };
  try {
    f();
    ::signal(SIGPIPE, SIG_IGN);
    const bool written = std::fflush(stdout) == 0;
    if (asked_to_stop() != 0) return 128 + asked_to_stop();
    if (!written && errno == EPIPE) return 128 + SIGPIPE;
    return written ? 0 : failed("cannot write to standard output");
  } catch (const std::bad_alloc&) {  // a line that needs no memory
    std::fflush(stdout);
    std::fprintf(stderr, "%s: out of memory: try %s\n", program, spare);
    return 1;
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

}  // namespace train
RLCORE_END
