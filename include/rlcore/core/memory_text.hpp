// Bytes as text, in one unit everywhere: 1.50 GiB.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN

/// "1.50 GiB": in the largest of B, KiB, MiB, GiB and TiB that it fills.
inline std::string memory_text(double bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  char out[400];
  std::snprintf(out, sizeof out, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
  return out;
}
/// The same of a size.
inline std::string memory_text(std::size_t bytes) { return memory_text(static_cast<double>(bytes)); }

RLCORE_END
