// Waiting with a deadline that a process does not miss by being stopped or starved.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// changed.wait_for(lock, longest, ready), by a clock that runs only while this thread could: the time is cut into 50
/// parts, each of which counts as its length however late the thread wakes from it. Whoever it waits for runs on the
/// same machine: a job that was suspended for an hour, or a machine with more work than cores, makes both late.
template <class Ready>
bool patient_wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  std::chrono::milliseconds longest, Ready ready) {
  constexpr int parts = 50;
  for (int part = 0; part < parts; ++part)
    if (changed.wait_for(lock, std::chrono::microseconds(longest) / parts, ready)) return true;
  return false;
}

RLCORE_END
