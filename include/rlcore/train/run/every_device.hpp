// Opens every device that a program can name.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/any_device.hpp"
#include "rlcore/device/cpu.hpp"
#include "rlcore/device/cuda.hpp"
#include "rlcore/device/device_settings.hpp"
#include "rlcore/device/npu.hpp"
#include "rlcore/device/npu/provider.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"
#include "rlcore/emulator/emulated_npu.hpp"

RLCORE_BEGIN
namespace train::opening {

/// The NPU that `s` describes, by the calls of `provider`; it computes in bfloat16 unless `s` names a type.
template <ascend::provider P>
std::unique_ptr<any_device> open_npu(const P& provider, const device_settings& s) {
  npu_settings settings;
  settings.device = s.number;
  settings.compute = s.type.value_or(compute::bfloat16);
  settings.deterministic = s.deterministic;
  settings.sync_each_operation = s.sync_each_operation;
  return std::make_unique<any_device_of<npu>>(
      ascend::session::open(ascend::traced_if_asked(provider.calls(), s.trace), std::string(provider.name())),
      settings);
}

/// The GPU that `s` describes, by the functions of a provider; it computes in float32 unless `s` names a type.
inline std::unique_ptr<any_device> open_cuda(nvidia::provider functions, const device_settings& s) {
  return std::make_unique<any_device_of<cuda>>(
      std::move(functions),
      cuda_settings{s.number, s.type.value_or(compute::float32), s.sync_each_operation, s.kernel_cache});
}

}  // namespace train::opening

/// The device that `s` describes. Throws device_error if this machine has none.
RLCORE_INLINE std::unique_ptr<any_device> open_device(const device_settings& s) {
  switch (s.kind) {
    case device_kind::npu:
      if (!ascend::dynamic_provider::available()) throw device_error(ascend::dynamic_provider::why_not());
      return train::opening::open_npu(ascend::dynamic_provider(), s);
    case device_kind::npu_emulator:
      return train::opening::open_npu(ascend::emulator(s.emulator), s);
    case device_kind::cuda:
      return train::opening::open_cuda(nvidia::installed_provider(), s);
    case device_kind::cuda_emulator:
      return train::opening::open_cuda(nvidia::emulator({.devices = s.emulated_gpus, .seed = s.thread_order_seed}), s);
    case device_kind::cpu:
      break;
  }
  return std::make_unique<any_device_of<cpu>>(s.threads, s.instruction_set, s.type.value_or(compute::float32));
}

RLCORE_END
