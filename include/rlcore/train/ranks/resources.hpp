// The ranks of a machine, and the CPU cores and the memory available to them.
#pragma once

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
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
#include "rlcore/parallel/launch.hpp"

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

namespace detail {

/// The number after `name` in a file of lines "name number ..."; without a name, the file's first number.
std::optional<std::size_t> number_in(const std::filesystem::path& file, const std::string& name = "");

}  // namespace detail

/// The smaller of MemAvailable in /proc/meminfo and the rest of the control group's limit (version 2 or 1), in bytes.
/// Empty if the system reports neither. `root` stands for "/".
std::optional<std::size_t> available_memory(const std::filesystem::path& root = "/");

/// The most device memory that was in use, where that is not host memory.
template <class Device>
std::optional<memory_peaks> most_memory_of(const Device& device) {
  if constexpr (requires { device.most_memory(); }) return device.most_memory();
  return std::nullopt;
}

/// The available bytes of a device's own memory. If the device uses the host's memory, this rank's share of
/// available_memory(), divided among the `ranks` of this machine.
template <class Device>
std::optional<std::size_t> available_memory_of(const Device& device, int ranks = 1) {
  if constexpr (requires { device.available_bytes(); })
    if (const std::optional<std::size_t> bytes = device.available_bytes()) return bytes;
  auto host = available_memory();
  if (host) *host /= static_cast<std::size_t>(ranks);
  return host;
}

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

namespace detail {

RLCORE_INLINE std::optional<std::size_t> number_in(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  std::size_t number = 0;
  if (name.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (word == name) return in >> number ? std::optional(number) : std::nullopt;
  return std::nullopt;
}

}  // namespace detail

RLCORE_INLINE std::optional<std::size_t> available_memory(const std::filesystem::path& root) {
  std::optional<std::size_t> least;
  if (const auto kib = detail::number_in(root / "proc/meminfo", "MemAvailable:")) least = *kib << 10;
  const std::filesystem::path group = root / "sys/fs/cgroup";
  struct names {
    const char *limit, *used, *statistics, *reclaimable;
  };
  for (const names& n : {names{"memory.max", "memory.current", "memory.stat", "inactive_file"},
                         names{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat",
                               "total_inactive_file"}}) {
    const auto limit = detail::number_in(group / n.limit), used = detail::number_in(group / n.used);
    if (!limit || !used) continue;  // no such group, or "max"
    const std::size_t files = std::min(*used, detail::number_in(group / n.statistics, n.reclaimable).value_or(0));
    const std::size_t left = *limit > *used - files ? *limit - (*used - files) : 0;
    least = least ? std::min(*least, left) : left;
  }
  return least;
}

}  // namespace train
RLCORE_END
#endif
