// An NPU of the emulated machine that needs no provider to be named.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/emulator/emulator.hpp"

RLCORE_BEGIN

/// An npu on ascend::emulator: `emulated_npu device;` is device 0 of the machine as it was configured last. For tests,
/// and to see how a program does on an NPU before there is one; its speed says nothing.
class emulated_npu : public npu {
 public:
  /// Throws npu_error if the emulated machine has no such device.
  explicit emulated_npu(npu_settings settings = {}) : npu(ascend::emulator(), settings) {}
};
static_assert(device<emulated_npu>);

RLCORE_END
