// Processor time: what a busy machine does not stretch, unlike a clock on the wall.
#pragma once

#include <ctime>

/// Of this process so far, all threads together, in seconds.
inline double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
