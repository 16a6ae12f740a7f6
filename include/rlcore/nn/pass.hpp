// What every layer of one forward or backward pass shares.
#pragma once

#include <cstdint>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/packed_weights.hpp"
#include "rlcore/nn/workspace.hpp"

RLCORE_BEGIN
namespace nn {

/// `tokens` rows at `positions` (device memory) under the model's `weights`, which the linear layers read packed;
/// `gradients` is null in a forward-only pass, and `first` says that those of linear weights hold nothing to add to.
template <class Device>
struct pass {
  Device& device;
  workspace<Device>& space;
  const float* weights = nullptr;
  packed_view packed = {};
  float* gradients = nullptr;
  extent_t tokens = 0;
  const std::int32_t* positions = nullptr;
  bool first = false;
};

}  // namespace nn
RLCORE_END
