// The devices without hardware that a test of losses and advantages runs on.
#pragma once

#include "device/npu/emulated_npu.hpp"
#include "rlcore/device/cuda.hpp"
#include "rlcore/emulator/emulated_cuda.hpp"

namespace rlcore_test {

/// f on an emulated GPU.
void on_cuda(const auto& f) {
  emulated_cuda machine;
  cuda& device = machine;
  f(device);
}
/// f on an emulated NPU and on an emulated GPU.
void everywhere_once(const auto& f) {
  f(*emulated_npu(compute::float32));
  on_cuda(f);
}

}  // namespace rlcore_test
