// Context parallel group, and its requirements on the device.
#pragma once

#include <string>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"

RLCORE_BEGIN
namespace nn {

/// A workspace with a context group runs passes over packed sequences (forward_backward, value_forward_backward,
/// log_probs, values) together with all ranks of the group. Every rank passes the same sequences and targets and gets
/// the same results. Each rank's gradients of weights are its part of the sum over the ranks.
struct context_group {
  parallel::any_communicator* ranks = nullptr;
  parallel::context_kind kind = parallel::context_kind::gather_kv;

  bool shares() const { return ranks != nullptr && ranks->size() > 1; }
};

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
