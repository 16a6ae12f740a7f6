// Settings of a device: kind, compute type, threads, NPU options.
#pragma once

#include <optional>
#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/compute.hpp"
#include "rlcore/device/npu/npu_settings.hpp"

RLCORE_BEGIN

/// The devices that open_device() creates: the CPU, an Ascend NPU, or an NPU emulated in the process.
enum class device_kind : unsigned char { cpu, npu, npu_emulator };

/// Settings for open_device().
struct device_settings {
  device_kind kind = device_kind::cpu;
  /// Compute type of matrix products; by default float32 on the CPU, bfloat16 on the NPU.
  std::optional<compute> type = {};

  int threads = 0;                   ///< cpu: worker threads; 0: one per core
  std::string instruction_set = {};  ///< cpu: see cpu; empty: the best available

  int npu = 0;                       ///< number of the NPU
  bool deterministic = true;         ///< npu: equal runs give equal bits
  bool sync_each_operation = false;  ///< npu: wait after every operator, so that an error names the one that failed
  std::string trace = {};  ///< npu: file for every call of Ascend's functions; empty: $RLCORE_NPU_TRACE or none
  ascend::emulated::settings emulator = {};  ///< npu_emulator: the emulated machine
};

RLCORE_END
