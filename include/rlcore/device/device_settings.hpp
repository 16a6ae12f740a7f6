// Settings of a device: kind, compute type, threads, options of NPUs and GPUs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/device/npu/npu_settings.hpp"

RLCORE_BEGIN

/// The devices that open_device() creates: the CPU, an Ascend NPU, an NVIDIA GPU, or one of them emulated in the
/// process.
enum class device_kind : unsigned char { cpu, npu, npu_emulator, cuda, cuda_emulator };

/// What a kind of device can do; programs check their options by it before a device is open.
struct device_abilities {
  device_kind kind = device_kind::cpu;
  std::string_view name = {};         ///< in trainer.device
  std::string_view unit = {};         ///< in messages: "NPU"
  std::string_view number_key = {};   ///< the option that names one device of several; empty: a machine has one
  std::string_view own_keys[3] = {};  ///< prefixes of the options that concern devices of this kind only
  bool threads = false;               ///< computes on the host's cores
  bool instruction_sets = false;
  bool hf32 = false;  ///< has this compute type
  bool int8_weights = false;
  bool batch_invariant = false;      ///< keeps the log-probs that sampling records
  bool partial_attention = false;    ///< context parallelism as a ring
  std::string_view groups_key = {};  ///< the option for devices that form a device_group; empty: they form none
  bool groups_of_processes = false;  ///< devices of several processes can form a device_group
};

/// Every kind of device, in the order of device_kind.
inline constexpr device_abilities device_kinds[] = {
    {.kind = device_kind::cpu,
     .name = "cpu",
     .unit = "CPU",
     .threads = true,
     .instruction_sets = true,
     .int8_weights = true,
     .batch_invariant = true,
     .partial_attention = true},
    {.kind = device_kind::npu,
     .name = "npu",
     .unit = "NPU",
     .number_key = "rlcore.npu.device",
     .own_keys = {"rlcore.npu."},
     .hf32 = true,
     .groups_key = "rlcore.npu.hccl",
     .groups_of_processes = true},
    {.kind = device_kind::npu_emulator,
     .name = "npu_emulator",
     .unit = "NPU",
     .number_key = "rlcore.npu.device",
     .own_keys = {"rlcore.npu.", "rlcore.npu_emulator."},
     .threads = true,
     .hf32 = true,
     .groups_key = "rlcore.npu.hccl"},
    {.kind = device_kind::cuda,
     .name = "cuda",
     .unit = "GPU",
     .number_key = "rlcore.cuda.device",
     .own_keys = {"rlcore.cuda."},
     .int8_weights = true,
     .batch_invariant = true,
     .partial_attention = true},
    {.kind = device_kind::cuda_emulator,
     .name = "cuda_emulator",
     .unit = "GPU",
     .number_key = "rlcore.cuda.device",
     .own_keys = {"rlcore.cuda.device", "rlcore.cuda.sync_each_operation", "rlcore.cuda_emulator."},
     .int8_weights = true,
     .batch_invariant = true,
     .partial_attention = true},
};

/// Settings for open_device().
struct device_settings {
  device_kind kind = device_kind::cpu;
  /// Compute type of matrix products; by default bfloat16 on the NPU, else float32.
  std::optional<compute> type = {};

  int threads = 0;                   ///< cpu: worker threads; 0: one per core
  std::string instruction_set = {};  ///< cpu: see cpu; empty: the best available

  int number = 0;             ///< of the NPU or GPU
  bool deterministic = true;  ///< npu: equal runs give equal bits
  bool sync_each_operation =
      false;               ///< wait after every operation of the device, so that an error names the one that failed
  std::string trace = {};  ///< npu: file for every call of Ascend's functions; empty: $RLCORE_NPU_TRACE or none
  ascend::emulated::settings emulator = {};  ///< npu_emulator: the emulated machine
  std::string kernel_cache = {};             ///< cuda: see cuda_settings::cache
  int emulated_gpus = 1;                     ///< cuda_emulator: GPUs of the machine
  std::uint64_t thread_order_seed = 0;       ///< cuda_emulator: see nvidia::emulator_settings::seed
};

RLCORE_END
