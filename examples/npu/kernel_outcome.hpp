// The result of a comparison of two devices.
#pragma once

#include <string>

namespace comparison {

/// What all calls of a kernel came to.
struct outcome {
  std::string kernel;
  double bound = 0, difference = 0;
  int calls = 0;
  bool compared = false;  ///< false: what it wrote is each device's own, and compared where it is read
  std::string problem;    ///< of the first call that failed; empty if all passed
};

}  // namespace comparison
