// Every rank holds a shard of all weights (ZeRO 3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "rlcore/training/expert_passes.hpp"
#include "rlcore/training/sharded/sharded_weights.hpp"
#include "rlcore/training/sharded_passes.hpp"
#include "rlcore/training/strategy/held_values.hpp"

RLCORE_BEGIN
namespace trainer {

/// Passes gather the weights layer by layer, and gradients go to their owners as soon as a layer or a leaf has them.
/// Expert parallel ranks have shards of all experts, and compute their own.
template <class Device>
class sharded_values final : public held_values<Device> {
 public:
  /// `model` is in units; both have to outlive this.
  sharded_values(nn::causal_lm<Device>& model, parallel::world& w)
      : model_(&model), world_(&w), layers_(model, w, !w.settings().reshard_after_forward) {}

  const nn::causal_lm<Device>& passing() const override { return *model_; }
  std::span<const nn::parameter> parameters() const override { return model_->parameters(); }
  /// Throws std::logic_error while weights are gathered, since the shard would be overwritten at their end.
  buffer<float, Device>& weights() override {
    if (layers_.gathered()) throw std::logic_error("rlcore: weights are gathered: end that before a step or restore()");
    return layers_.shard();
  }
  /// By its place among the moments.
  const float* place_of(const owned_run& run) override { return layers_.shard().data() + run.moments; }
  gathered_layers<Device>* gathered() override { return &layers_; }
  void set_tensor_group(nn::tensor_group& group) override { model_->set_tensor_group(&group); }
  void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool) override {
    if (world_->expert().size() > 1) experts_.emplace(*world_, *model_, space, gradient.of_weights(), false);
  }

  void load(const std::filesystem::path& folder, std::uint64_t seed) override { layers_.load(folder, seed); }
  std::vector<float> read(const std::filesystem::path& folder, std::span<const owned_run> runs) override {
    std::vector<float> values(layers_.shard().size());
    read_weights(folder, model_->parameters(), runs, values);
    return values;
  }

  /// With one pass in the round at most, gradients go to their owners layer by layer, else when a leaf is complete.
  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    nn::gradients<Device>& g = gradient.of_weights();
    const std::size_t most = model_->units() || experts_ ? round.plan.most_passes(sums.schedule(), round.number) : 0;
    if (most == 1 && g.can_go_by_units()) return unit_round(*model_, g, sums, round.plan, round.leaf, round.number, f);
    for (std::size_t passes = round.run(f); passes < most; ++passes)
      experts_ ? experts_->idle(round.recompute) : idle_pass(*model_, [](std::size_t) {});
    if (experts_) experts_->end_leaf(round.has_rows());
    if (round.has_rows())
      gradient.hand_over(sums, round.number);
    else
      sums.skip(round.number);
  }
  void end_rounds(step_gradient<Device>&, parallel::gradient_sums<Device>&) override {}
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>&, const float* sum, double lr,
            float scale) override {
    optimizer.step(weights(), std::span<const float>(sum, optimizer.size()), lr, scale);
  }

 private:
  nn::causal_lm<Device>* model_;
  parallel::world* world_;
  sharded_weights<Device> layers_;
  std::optional<expert_passes<Device>> experts_;
};

}  // namespace trainer
RLCORE_END
