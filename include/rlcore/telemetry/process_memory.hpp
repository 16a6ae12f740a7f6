// Memory of this process, for perf/cpu_memory_used_gb.
#pragma once

#include <unistd.h>

#include <fstream>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer {

/// Resident memory of this process in GiB; 0 if the system does not report it (/proc/self/statm).
inline double resident_memory_gib() {
  std::ifstream file("/proc/self/statm");
  long long total = 0, resident = 0;
  if (!(file >> total >> resident)) return 0;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1024.0 * 1024.0 * 1024.0);
}

}  // namespace trainer
RLCORE_END
