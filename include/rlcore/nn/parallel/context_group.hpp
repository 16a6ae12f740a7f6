// Context parallel group, and its requirements on the device.
#pragma once

#include <numeric>
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

/// The neighbouring ranks of a ulysses group of `ranks` that exchange heads: as many as divide both the ranks and the
/// key heads. If they are not all of the ranks, each key head lives on ranks / this many ranks, which share the
/// sequences of their heads among each other as a ring (Fang and Zhao 2024, arXiv:2405.07719). So a key head has all of
/// its query heads on every rank that has it, and its gradient is summed in the order of one rank.
inline int ulysses_head_ranks(int ranks, extent_t kv_heads) {
  return static_cast<int>(std::gcd(static_cast<extent_t>(ranks), kv_heads));
}

/// Throws config_error, in all ranks, unless the group can share attention on such a device.
template <class Device>
void check_context(const Device& device, const context_group& group) {
  if (!group.shares()) return;
  if (group.kind == parallel::context_kind::ring && attention_tile(device) == 0)
    throw config_error("rlcore: device " + std::string(device.name()) +
                       " cannot carry the state of attention around a ring; context parallelism by gather_kv or "
                       "ulysses can be had on it");
}

}  // namespace nn

RLCORE_END
