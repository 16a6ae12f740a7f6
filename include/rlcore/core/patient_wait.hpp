// Condition-variable wait whose timeout does not count time in which the process was stopped or starved.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// changed.wait_for(lock, longest, ready), by a clock that runs only while this thread could run: the timeout is split
/// into 50 slices, and each slice counts as its length however late the thread wakes. Both sides run on the same
/// machine, so suspending the job for an hour, or oversubscribed cores, delays both.
template <class Ready>
bool patient_wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                  std::chrono::milliseconds longest, Ready ready) {
  constexpr int parts = 50;
  for (int part = 0; part < parts; ++part)
    if (changed.wait_for(lock, std::chrono::microseconds(longest) / parts, ready)) return true;
  return false;
}

RLCORE_END
