// Counts expert choices of an optimizer step for the load-balancing loss.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/nn/model/backbone.hpp"
#include "rlcore/nn/moe/load_balancing.hpp"

RLCORE_BEGIN
namespace nn {

/// Adds the choices of every token of the sequences in every layer with experts. The load-balancing loss is over all
/// tokens of an optimizer step; with its counts known before the first backward, the gradient is a plain sum over
/// tokens, and its bits do not depend on the split into micro-batches, leaves and ranks. If one micro-batch is the
/// whole step, workspace::routed has the counts between forward and backward.
template <class Device>
void count_routes(const causal_lm<Device>& model, workspace<Device>& space, const input& sequences,
                  router_counts& counts) {
  backbone<Device> forward(model, space, sequences, std::span<const std::int32_t>(), true);
  struct {
    void leave_zero(std::size_t) {}
  } nothing;
  if (!model.pipeline()) forward.skip_backward(nothing);  // no stage waits for a backward
  counts += space.routed;
}

}  // namespace nn
RLCORE_END
