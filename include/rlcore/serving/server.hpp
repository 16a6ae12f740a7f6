// Declaration of a whole server from a command line. The CMake target rlcore::server has it compiled for any_device: a
// program that links it includes this header and compiles in seconds. A program for another device includes serve.hpp.
#pragma once

#include <memory>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/serving/awaited_signals.hpp"

RLCORE_BEGIN
class any_device;

namespace trainer {
class options;
}

namespace serving {

/// Serves until SIGINT or SIGTERM, and returns its number. The devices' ranks share the model. While weights are read a
/// signal ends the process at once. On shutdown requests have --shutdown-timeout; a second signal ends the process.
/// Create `signals` before the device, which starts threads. Throws config_error, file_error and format_error before
/// the first request is accepted.
template <class Device>
int serve(const std::vector<std::unique_ptr<Device>>& devices, const trainer::options& opt,
          const awaited_signals& signals);

#if defined(RLCORE_COMPILED)
/// In src/serve.cpp.
extern template int serve(const std::vector<std::unique_ptr<any_device>>&, const trainer::options&,
                          const awaited_signals&);
#endif

}  // namespace serving
RLCORE_END
