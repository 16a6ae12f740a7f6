// Mixtures of experts in a trainable_model: experts divided among ranks, and the counts of a load-balancing loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/model/forward_backward.hpp"
#include "rlcore/nn/model/value_forward_backward.hpp"
#include "rlcore/nn/moe/count_routes.hpp"
#include "rlcore/nn/moe/expert_group.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/training/leaf_plan.hpp"

RLCORE_BEGIN
namespace trainer {

/// Expert parallelism: in a training pass each rank of world.expert() computes a part of the experts, for the rows of
/// all these ranks. All of them make the same number of passes. If the model holds that part alone, the sums over ranks
/// and the checkpoints have to know (expert_shards.hpp). If it holds all experts in shards (zero 3), the gradients of
/// experts return to the leaf of their rows, and nothing else has to know.
template <class Device>
class expert_passes {
 public:
  /// `gradient` is the gradient of all weights. Throws config_error if it is null, or if the model has no experts or
  /// fewer than there are ranks. All arguments have to outlive this object. `together`: see
  /// nn::gradients::divide_experts.
  expert_passes(parallel::world& w, const nn::causal_lm<Device>& model, nn::workspace<Device>& space,
                nn::gradients<Device>* gradient, bool together)
      : model_(&model), space_(&space), gradient_(gradient), group_(w.expert()) {
    const nn::config& c = model.settings();
    check_partition(c, {0, 1, group_.rank(), group_.size()});
    if (!gradient_) throw config_error("expert parallel: adapters (LoRA) cannot be trained while ranks divide experts");
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

/// `config`, with a load-balancing loss if the coefficient is above 0.
inline nn::config with_router_loss(nn::config config, double coefficient) {
  if (coefficient > 0) config.output_router_logits = true, config.router_aux_loss_coef = coefficient;
  return config;
}

/// True if training adds a load-balancing loss: like transformers, with output_router_logits.
inline bool balances(const nn::config& c) {
  return c.output_router_logits && c.router_aux_loss_coef > 0 && c.sparse_layers() > 0;
}
/// The gradient of the step's load-balancing loss in each expert's probability (nn::load_balancing_slopes).
inline std::vector<float> balance_slopes(const nn::config& c, const nn::router_counts& step) {
  return nn::load_balancing_slopes(step, c.router_aux_loss_coef);
}

/// Counts the experts that all tokens of an optimizer step choose; every rank gets the same integers. Calls
/// count(rows), which adds to `counts`, for every pass of this rank, and idle() for a pass that only other ranks make.
template <class Count, class Idle>
void count_step(const leaf_plan& plan, const parallel::leaf_schedule* schedule, parallel::world* world,
                nn::router_counts& counts, std::int64_t of_experts, Count&& count, Idle&& idle) {
  const auto experts = static_cast<std::size_t>(of_experts);
  counts.reset(experts);
  if (!schedule) return plan.for_each_pass(0, count);
  const auto rank = static_cast<std::size_t>(world->data().rank());
  for (std::size_t round = 0; round < schedule->rounds(); ++round) {
    std::size_t passes = 0;
    if (const std::size_t leaf = schedule->leaf(rank, round); leaf != schedule->none)
      plan.for_each_pass(leaf, [&](std::span<const std::uint32_t> rows) { count(rows), ++passes; });
    for (const std::size_t most = plan.most_passes(*schedule, round); passes < most; ++passes) idle();
  }
  parallel::any_communicator& c = world->sums();
  const std::size_t n = counts.values.size();
  std::vector<std::int64_t> gathered(n * static_cast<std::size_t>(c.size()));
  c.all_gather(std::span<const std::int64_t>(counts.values), std::span<std::int64_t>(gathered));
  counts.reset(experts);
  for (std::size_t i = 0; i < gathered.size(); ++i) counts.values[i % n] += gathered[i];
}

}  // namespace trainer
RLCORE_END
