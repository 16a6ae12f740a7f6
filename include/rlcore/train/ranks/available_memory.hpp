// Available memory of this process (MemAvailable, cgroup limits).
#pragma once

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

namespace detail {

/// The number after `name` in a file of lines "name number ..."; without a name, the file's first number.
std::optional<std::size_t> number_in(const std::filesystem::path& file, const std::string& name = "");

}  // namespace detail

/// The smaller of MemAvailable in /proc/meminfo and the rest of the control group's limit (version 2 or 1), in bytes.
/// Empty if the system reports neither. `root` stands for "/".
std::optional<std::size_t> available_memory(const std::filesystem::path& root = "/");

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
namespace train::detail {

RLCORE_INLINE std::optional<std::size_t> number_in(const std::filesystem::path& file, const std::string& name) {
  std::ifstream in(file);
  std::size_t number = 0;
  if (name.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string word; in >> word; in.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (word == name) return in >> number ? std::optional(number) : std::nullopt;
  return std::nullopt;
}

}  // namespace train::detail

namespace train {

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
