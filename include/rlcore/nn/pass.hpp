// What every layer of one forward or backward pass shares.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/workspace.hpp"

RLCORE_BEGIN
namespace nn {

/// `tokens` rows at `positions` (device memory) under the model's `weights`; `gradients` is null in a forward-only
/// pass.
template <class Device>
struct pass {
  Device& device;
  workspace<Device>& space;
  const float* weights = nullptr;
  float* gradients = nullptr;
  extent_t tokens = 0;
  const std::int32_t* positions = nullptr;
};

}  // namespace nn
RLCORE_END
