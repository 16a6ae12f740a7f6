// Whether python3 can be run.
#pragma once

#include <cstdlib>

inline bool has_python() {
  static const bool found = std::system("python3 -c '' >/dev/null 2>&1") == 0;
  return found;
}
