// The frame of every program: what went wrong becomes one line and exit code 1.
#pragma once

#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <thread>

#include "rlcore/core/error.hpp"
#include "rlcore/parallel/environment.hpp"
#include "rlcore/telemetry/console.hpp"

RLCORE_BEGIN
namespace trainer {

/// Runs f and returns the exit code of main: 0, or 1 after printing "<program>: <what went wrong>" to stderr. What all
/// processes of mpirun find wrong with their command line the first of them says; what others find alone, they say when
/// the first has had 20 seconds for it.
template <class F>
int run_program(const char* program, F&& f) noexcept {
  const auto failed = [&](const char* what) {
    std::fflush(stdout);
    if (!detail::ranks_started() && parallel::rank_of_environment() > 0)
      std::this_thread::sleep_for(std::chrono::seconds(20));  // mpirun ends all as soon as one has ended
    std::fprintf(stderr, "%s: %s\n", program, what);
    return 1;
  };
  try {
    f();
    if (std::fflush(stdout) != 0) return failed("cannot write to standard output");
    return 0;
  } catch (const std::bad_alloc&) {
    return failed("out of memory: try smaller batches, rlcore.logits_memory_mb or rlcore.max_decode_batch");
  } catch (const std::exception& e) {
    return failed(e.what());
  }
}

}  // namespace trainer
RLCORE_END
