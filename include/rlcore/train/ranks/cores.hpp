// The ranks of a machine, and the CPU cores available to them.
#pragma once

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#else
#include <thread>
#endif

#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/environment.hpp"

RLCORE_BEGIN
namespace train {

/// A rank among those of its machine.
struct local_place {
  int rank = 0, size = 1;
};

/// Finds the ranks of this machine by its host name.
inline local_place find_local_place(parallel::any_communicator& ranks) {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  std::uint64_t hash = 1469598103934665603u;
  for (const char c : std::string_view(name)) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  std::vector<std::uint64_t> names(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(std::span<const std::uint64_t>(&hash, 1), std::span(names));
  local_place place{0, 0};
  for (std::size_t r = 0; r < names.size(); ++r) {
    if (names[r] != hash) continue;
    place.rank += r < static_cast<std::size_t>(ranks.rank());
    ++place.size;
  }
  return place;
}

/// The number of cores that `process` may run on (0: this process). Returns 0 if the system does not report it.
int cores_of(pid_t process);

/// `mine` counts the cores of this process, `machine` those of all ranks of this machine together. Under mpirun the
/// latter are the launcher's cores; it may have bound each rank to a part of them.
struct core_counts {
  int mine = 1, machine = 1;

  static core_counts here();
  /// The number of threads for one of `ranks` ranks, so that all together use each core once.
  int share(int ranks) const { return std::max(1, mine * ranks <= machine ? mine : machine / ranks); }

  /// A note for the user about `ranks` ranks (threads or `processes`) on these cores; empty if all is well.
  std::string note(int ranks, bool processes) const;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE int cores_of(pid_t process) {
#if defined(__linux__)
  cpu_set_t set;
  return ::sched_getaffinity(process, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
#else
  return process == 0 ? static_cast<int>(std::thread::hardware_concurrency()) : 0;
#endif
}

RLCORE_INLINE core_counts core_counts::here() {
  core_counts c;
  c.mine = c.machine = std::max(1, cores_of(0));
  if (parallel::ranks_of_environment() > 1) c.machine = std::max(c.mine, cores_of(::getppid()));
  return c;
}

RLCORE_INLINE std::string core_counts::note(int ranks, bool processes) const {
  const auto cores = [](int n) { return std::to_string(n) + (n == 1 ? " core" : " cores"); };
  if (ranks > machine)
    return std::to_string(ranks) + " ranks on " + cores(machine) + " take turns: slower, the same results";
  if (processes && 2 * mine * ranks <= machine)
    return "mpirun has bound each of " + std::to_string(ranks) + " ranks to " + cores(mine) + " of " +
           std::to_string(machine) + ": --bind-to none, or --map-by ppr:" + std::to_string(ranks) +
           ":node:PE=" + std::to_string(machine / ranks) + ", gives each its share";
  return {};
}

}  // namespace train
RLCORE_END
#endif
