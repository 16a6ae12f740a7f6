// How many cores the ranks of a machine have.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <string>

#if defined(__linux__)
#include <sched.h>
#else
#include <thread>
#endif

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/environment.hpp"

RLCORE_BEGIN
namespace trainer {

/// Cores that a process may run on, 0: this one; 0 if the system does not say.
inline int cores_of(pid_t process) {
#if defined(__linux__)
  cpu_set_t set;
  return ::sched_getaffinity(process, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
#else
  return process == 0 ? static_cast<int>(std::thread::hardware_concurrency()) : 0;
#endif
}

/// Cores of this process, and of all ranks of this machine together: under mpirun those of the launcher, which has
/// bound its ranks to parts of them or has not.
struct core_counts {
  int mine = 1, all = 1;

  static core_counts here() {
    core_counts c;
    c.mine = c.all = std::max(1, cores_of(0));
    if (parallel::ranks_of_environment() > 1) c.all = std::max(c.mine, cores_of(::getppid()));
    return c;
  }
  /// Threads of one of `ranks` ranks, so that all together use each core once.
  int share(int ranks) const { return std::max(1, mine * ranks <= all ? mine : all / ranks); }

  /// What `ranks` ranks, threads or processes, should know about them; empty if nothing.
  std::string note(int ranks, bool processes) const {
    const auto cores = [](int n) { return std::to_string(n) + (n == 1 ? " core" : " cores"); };
    if (ranks > all) return std::to_string(ranks) + " ranks on " + cores(all) + " take turns: slower, the same results";
    if (processes && 2 * mine * ranks <= all)
      return "mpirun has bound each of " + std::to_string(ranks) + " ranks to " + cores(mine) + " of " +
             std::to_string(all) + ": --bind-to none, or --map-by ppr:" + std::to_string(ranks) +
             ":node:PE=" + std::to_string(all / ranks) + ", gives each its share";
    return {};
  }
};

}  // namespace trainer
RLCORE_END
