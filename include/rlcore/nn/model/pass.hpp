// What every layer of one forward or backward pass shares.
#pragma once

#include <cstdint>

#include <span>
#include "rlcore/core/abi.hpp"

#include "rlcore/device/device.hpp"
#include "rlcore/nn/lora/adapter_pass.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/moe/load_balancing.hpp"
#include "rlcore/tensor/offset_pointer.hpp"

RLCORE_BEGIN
namespace nn {

template <class Device>
class context_pass;
class tensor_group;
class expert_group;
struct row_share;

/// `tokens` rows at `positions` (device memory) under the model's `weights`, which the linear layers read packed;
/// `gradients` is null in a forward-only pass and where the weights are frozen, and `first` says that those of linear
/// weights hold nothing to add to. `adapter` is null unless low-rank adapters are trained. `tensor` is null unless
/// ranks share the layers, and `share` unless they share the rows between layers (tensor_pass.hpp). `head_gradients` is
/// null unless the gradients of norms of heads are summed for each head (gradients.hpp), `context` unless ranks work on
/// the same sequences together (context_pass.hpp), `expert` unless ranks divide the experts (expert_visit.hpp);
/// gradients of these for the rows of rank s then go to source_gradients[s] (expert_sums.hpp). `routed` is null unless
/// choices of experts are counted, and `balance` empty unless there is a load-balancing loss (load_balancing_slopes()).
template <class Device>
struct pass {
  Device& device;
  workspace<Device>& space;
  offset_pointer<const float> weights = {};
  packed_view packed = {};
  offset_pointer<float> gradients = {};
  extent_t tokens = 0;
  const std::int32_t* positions = nullptr;
  bool first = false;
  const adapter_pass* adapter = nullptr;
  tensor_group* tensor = nullptr;
  const row_share* share = nullptr;
  float* head_gradients = nullptr;
  context_pass<Device>* context = nullptr;
  expert_group* expert = nullptr;
  float* const* source_gradients = nullptr;
  bool experts_together = false;  ///< or to `gradients`, which hold a sum already
  router_counts* routed = nullptr;
  std::span<const float> balance = {};
};

}  // namespace nn
RLCORE_END
