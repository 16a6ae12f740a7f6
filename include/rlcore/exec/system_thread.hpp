// System threads, a monotonic clock and the number of cores without <thread>, <mutex> and <chrono>, which would be a
// third of the compile time of a program that computes a loss.
#pragma once

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <system_error>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
RLCORE_ALGORITHM_BEGIN
namespace system_threads {

/// Runs `body(context)` until it returns; the owner joins exactly once.
class system_thread {
 public:
  using function = void* (*)(void* context);

  /// Throws std::system_error when the system refuses a thread.
  system_thread(function body, void* context) {
    if (const int error = pthread_create(&handle_, nullptr, body, context); error != 0)
      throw std::system_error(error, std::generic_category(), "rlcore: no further thread can be started");
  }
  void join() noexcept { pthread_join(handle_, nullptr); }

 private:
  pthread_t handle_;
};

/// Cores of the machine, at least 1.
inline std::size_t system_cores() noexcept {
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 ? static_cast<std::size_t>(cores) : 1;
}

/// Nanoseconds of a monotonic clock.
inline std::int64_t steady_nanoseconds() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace system_threads
RLCORE_ALGORITHM_END
RLCORE_END
