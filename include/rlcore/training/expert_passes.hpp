// Expert parallelism: passes of a model with experts distributed over ranks.
#pragma once

#include <cstdint>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/value_forward_backward.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace trainer {

/// In a training pass each rank of world.expert() computes a part of the experts, for the rows of all these ranks. All
/// of them make the same number of passes. If the model holds only that part, the sums over ranks and the checkpoints
/// handle it (expert_shards.hpp). If it holds all experts in shards (zero 3), the gradients of experts return to the
/// leaf of their rows, and nothing else changes.
template <class Device>
class expert_passes {
 public:
  /// `gradient` is the gradient of all weights. Throws config_error if the model has no experts or fewer experts than
  /// ranks. All arguments must outlive this object. `together`: see nn::gradients::divide_experts.
  expert_passes(parallel::world& w, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                nn::gradients<Device>& gradient, bool together)
      : model_(&model), space_(&space), gradient_(&gradient), group_(w.expert()) {
    check_partition(model.settings(), {0, 1, group_.rank(), group_.size()});
    space.experts = &group_;
    gradient_->divide_experts(model, group_, together);
  }
  expert_passes(const expert_passes&) = delete;
  expert_passes& operator=(const expert_passes&) = delete;

  /// Takes part in a pass for the rows of other ranks.
  void idle(bool recompute) {
    const ragged<std::int32_t> none;
    if (model_->settings().output == nn::model_output::logits)
      nn::forward_backward(*model_, *space_, *gradient_, none, {}, 1.0f, recompute, [](auto, auto, auto, auto) {});
    else
      nn::value_forward_backward(*model_, *space_, *gradient_, none, {}, recompute, [](auto, auto) {});
  }
  /// Completes the gradients of the leaf's rows; without a leaf they become 0.
  void end_leaf(bool has_leaf) {
    gradient_->collect_experts();
    if (!has_leaf) gradient_->zero();
  }

 private:
  const nn::causal_lm<Device>* model_;
  nn::workspace<Device>* space_;
  nn::gradients<Device>* gradient_;
  nn::expert_group_of<parallel::any_communicator> group_;
};

}  // namespace trainer
RLCORE_END
