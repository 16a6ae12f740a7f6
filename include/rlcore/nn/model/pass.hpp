// Context of one forward or backward pass, shared by all layers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/packed_weights.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/moe/load_balancing.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

template <class Device>
class context_pass;
class tensor_group;
class expert_group;
struct row_share;

/// The adapters of the projections of one linear: A stacked [rank, inputs], B block-diagonal [outputs, rank]; `rank` is
/// the sum of their ranks, 0 without adapters. da and db accumulate the gradients of both before the factor alpha /
/// rank; db is undefined outside of the diagonal blocks.
struct adapted_linear {
  extent_t rank = 0;
  const std::byte* a = nullptr;  ///< packed
  const float* b = nullptr;
  float *da = nullptr, *db = nullptr;
};

/// One adapter per packed weight of the model, by index, and two buffers [tokens, rank].
struct adapter_pass {
  std::span<const adapted_linear> linears;
  float *u = nullptr, *du = nullptr;
};

/// `tokens` rows at `positions` (device memory) under the model's `weights`, which the linear layers read packed;
/// `gradients` is null in a forward-only pass and where the weights are frozen, with `first` the backward overwrites
/// those of linear weights. `adapter` is null without LoRA, `tensor` without tensor parallelism, `share` without
/// sequence parallelism (tensor_pass.hpp), `head_gradients` unless head norm gradients are summed per head
/// (gradients.hpp), `context` without context parallelism (context_pass.hpp), `expert` without expert parallelism
/// (moe.hpp); expert gradients for the rows of rank s then go to source_gradients[s] (expert_sums.hpp).
/// `choices` has the experts of rows that the router does not route;
/// `routed` is null unless expert choices are counted, and `balance` empty without a load-balancing loss
/// (load_balancing_slopes()).
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
  bool experts_together = false;  ///< or to `gradients`, which already hold a sum
  expert_choices choices = {};
  router_counts* routed = nullptr;
  std::span<const float> balance = {};
};

}  // namespace nn
RLCORE_END
