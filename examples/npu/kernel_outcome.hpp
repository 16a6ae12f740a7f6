// The result of a comparison of two devices.
#pragma once

#include <string>

namespace comparison {

/// The result of all calls of a kernel.
struct outcome {
  std::string kernel;
  double bound = 0, difference = 0;
  int calls = 0;
  bool compared = false;  ///< false: the output is device-specific and compared through its readers
  std::string problem;    ///< of the first call that failed; empty if all passed
};

}  // namespace comparison
