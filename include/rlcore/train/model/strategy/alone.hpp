// Single-rank training strategy.
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/layout/shard_layout.hpp"
#include "rlcore/parallel/strategy/parallel_strategy.hpp"
#include "rlcore/train/model/leaf_plan.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/sharded/sharded_update.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"
#include "rlcore/train/model/strategy/training_strategy.hpp"

RLCORE_BEGIN
namespace strategy {

/// Holds all of the model, its gradient and its moments (training_strategy.hpp).
template <class Device>
class alone::share {
 public:
  /// The whole model.
  static nn::causal_lm<Device> make_model(const alone&, Device& device, const nn::config& config, bool) {
    return nn::causal_lm<Device>(device, config);
  }

  /// Null `adapter`: all weights are trained.
  share(const alone& settings, nn::causal_lm<Device>& model, nn::lora<Device>* adapter)
      : model_(&model),
        adapter_(adapter),
        layout_(adapter ? std::vector<std::size_t>{adapter->size()} : nn::unit_ends(model.parameters()), 1,
                adapter ? nn::unit_begins(parameters()) : nn::expert_begins(parameters())),
        sum_(model.device(), layout_.size(), static_cast<std::size_t>(settings.leaves)) {}

  const nn::causal_lm<Device>& passing() const noexcept { return *model_; }
  std::span<const nn::parameter> parameters() const noexcept {
    return adapter_ ? adapter_->parameters() : model_->parameters();
  }
  buffer<float, Device>& weights() noexcept { return adapter_ ? adapter_->values() : model_->weights(); }
  std::size_t optimizer_size() const noexcept { return layout_.size(); }
  std::vector<optim::adamw_piece> pieces() const { return {{0, layout_.size(), 0}}; }
  /// No-op: passes are local.
  static void join(nn::workspace<Device>&, train::step_gradient<Device>&) noexcept {}
  /// No-op: nothing to gather.
  struct full_params {
    ~full_params() {}  // avoids unused-variable warnings
  };
  full_params gather_full_params() const noexcept { return {}; }

  /// All weights of the model.
  train::resident_weights<Device> resident() { return {model_->weights(), model_->parameters()}; }

  void begin_update() {
    sum_.begin();
    dealt_ = false;
  }
  /// Calls f(rows), which counts, for every pass of every leaf.
  template <class F, class Idle>
  void count_passes(const train::leaf_plan& plan, nn::router_counts&, F&& f, Idle&&) const {
    for (std::size_t leaf = 0; leaf < plan.leaves(); ++leaf) plan.for_each_pass(leaf, f);
  }
  /// Calls f(rows), which adds to `gradient`, for every pass of every leaf; `gradient` is 0 after each leaf.
  template <class F>
  void micro_batches(const train::leaf_plan& plan, train::step_gradient<Device>& gradient, bool, F&& f) {
    if (std::exchange(dealt_, true)) throw std::logic_error("rlcore: for_micro_batches: once in an optimizer step");
    for (std::size_t leaf = 0; leaf < plan.leaves(); ++leaf) {
      if (plan.empty(leaf)) {
        sum_.skip(leaf);
      } else if (float* const left = sum_.left_of(leaf);
                 left != nullptr && gradient.can_add_by_units(*model_) && plan.passes(leaf) == 1) {
        gradient.add_by_units(*model_, left, [&] { plan.for_each_pass(leaf, f); });
        sum_.skip(leaf);
      } else {
        gradient.borrow(sum_);
        plan.for_each_pass(leaf, f);
        gradient.hand_over(sum_, leaf);
      }
    }
  }
  /// Frees the memory of gradients until the next step.
  void release(train::step_gradient<Device>& gradient) {
    sum_.release();
    gradient.release();
  }
  /// Completes the sum. Returns the norm, with squares added in the same order as on several ranks.
  double reduce(train::step_gradient<Device>& gradient) {
    if (!dealt_) gradient.hand_over(sum_, 0);
    total_ = sum_.finish();
    const std::vector<double> squares = train::layout_squares(model_->device(), layout_, 0, total_);
    return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  }
  /// Takes the step on the sum of the last reduce().
  void step(optim::adamw<Device>& optimizer, double lr, float scale) {
    optimizer.step(weights(), std::span<const float>(total_, layout_.size()), lr, scale);
  }

 private:
  nn::causal_lm<Device>* model_;
  nn::lora<Device>* adapter_;
  parallel::shard_layout layout_;
  train::leaf_sum<Device> sum_;
  const float* total_ = nullptr;
  bool dealt_ = false;
};

/// A frozen model on one rank: no extra state.
template <class Device>
class alone::frozen {
 public:
  /// The whole model. `packed`: it has its weights in packed form alone.
  static nn::causal_lm<Device> make_model(const alone&, Device& device, const nn::config& config, bool packed) {
    return nn::causal_lm<Device>(device, config, {}, train::frozen_weights_in(packed));
  }
  /// `model` must outlive this object.
  frozen(const alone&, nn::causal_lm<Device>& model) : model_(&model) {}
  /// All weights of the model.
  train::resident_weights<Device> resident() { return {model_->weights(), model_->parameters()}; }

 private:
  nn::causal_lm<Device>* model_;
};

}  // namespace strategy

RLCORE_END
