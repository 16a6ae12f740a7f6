// Emulated NPU device, without a provider argument.
#pragma once

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/emulator/emulator.hpp"

RLCORE_BEGIN

/// An npu on ascend::emulator: `emulated_npu device;` is device 0 of the machine as last configured. For tests, and to
/// try a program without NPU hardware; its speed is not representative.
class emulated_npu : public npu {
 public:
  /// Throws npu_error if the emulated machine does not have the device.
  explicit emulated_npu(npu_settings settings = {}) : npu(ascend::emulator(), settings) {}
};
static_assert(device<emulated_npu>);

RLCORE_END
