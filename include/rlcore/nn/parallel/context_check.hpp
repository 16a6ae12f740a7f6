// The requirements of a context group on a model and a device.
#pragma once

#include <string>

#include "rlcore/core/error.hpp"
#include "rlcore/device/partial_attention.hpp"
#include "rlcore/nn/parallel/context_group.hpp"

RLCORE_BEGIN
namespace nn {

/// Throws config_error, in all ranks, unless the group can share attention of this shape on such a device.
template <class Device>
void check_context(const Device& device, const attention_shape& shape, const context_group& group) {
  if (!group.shares()) return;
  const extent_t ranks = group.ranks->size();
  if (group.kind == parallel::context_kind::ulysses && shape.kv_heads % ranks != 0)
    throw config_error("rlcore: ulysses sequence parallelism of " + std::to_string(ranks) +
                       " ranks needs a multiple of as many key and value heads, got " + std::to_string(shape.kv_heads) +
                       "; gather_kv (rlcore.context_kind) takes any number");
  if (group.kind == parallel::context_kind::ring && attention_tile(device) == 0)
    throw config_error("rlcore: device " + std::string(device.name()) +
                       " cannot carry the state of attention around a ring; context parallelism by gather_kv or "
                       "ulysses can be had on it");
}

}  // namespace nn
RLCORE_END
