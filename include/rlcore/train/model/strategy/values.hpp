// The parameter values that a rank holds: whole, sharded, or with some of the experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/workspace.hpp"
#include "rlcore/nn/parallel/pipeline_link.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/reduction/gradient_sums.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/leaf_plan.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/sharded/expert_shards.hpp"
#include "rlcore/train/model/sharded/gathered_layers.hpp"
#include "rlcore/train/model/sharded/sharded_update.hpp"
#include "rlcore/train/model/strategy/step_gradient.hpp"

RLCORE_BEGIN
namespace train {

/// A round of an optimizer step: every data parallel rank has at most one leaf.
struct leaf_round {
  const leaf_plan& plan;
  std::size_t number = 0;
  std::size_t leaf = 0;    ///< of this rank, or leaf_schedule::none
  bool recompute = false;  ///< in backward passes

  /// Whether this rank has rows in the round.
  bool has_rows() const { return leaf != parallel::leaf_schedule::none && !plan.empty(leaf); }
  /// f(rows) for each pass of this rank; returns their number.
  std::size_t run(const std::function<void(std::span<const std::uint32_t>)>& f) const {
    std::size_t passes = 0;
    if (has_rows()) plan.for_each_pass(leaf, [&](std::span<const std::uint32_t> rows) { f(rows), ++passes; });
    return passes;
  }
};

/// The ways to hold a model in training: all of it (whole_values), a shard (sharded_values, with adapters
/// sharded_base), or everything but remote experts (expert_values). Hooks are called by all ranks together, in the
/// order of a step.
template <class Device>
class held_values {
 public:
  /// Callback of a leaf's pass.
  using pass_function = std::function<void(std::span<const std::uint32_t>)>;

  held_values() = default;
  held_values(const held_values&) = delete;
  held_values& operator=(const held_values&) = delete;
  virtual ~held_values() = default;

  /// The model that training passes use.
  virtual const nn::causal_lm<Device>& passing() const = 0;
  /// The parameters of this rank, whole or in part.
  virtual std::span<const nn::parameter> parameters() const = 0;
  /// Those of them whose gradients all ranks sum.
  virtual std::span<const nn::parameter> shared_parameters() const { return parameters(); }
  /// The memory of this rank's values.
  virtual buffer<float, Device>& weights() = 0;
  /// Address of the values of a run.
  virtual const float* place_of(const owned_run& run) = 0;
  /// The gatherer of full weights; null if this rank holds them.
  virtual gathered_layers<Device>* gathered() { return nullptr; }
  /// This rank's shard of the model's weights; null if it has none.
  virtual const sharded_weights<Device>* shards() const { return nullptr; }
  /// The number of values that the optimizer holds behind those of shared_parameters().
  virtual std::size_t further_size() const { return 0; }
  /// Their pieces, after `before` other values.
  virtual std::vector<optim::adamw_piece> further_pieces(std::size_t before) const {
    static_cast<void>(before);
    return {};
  }
  /// For passes of a tensor parallel model.
  virtual void set_tensor_group(nn::tensor_group& group) = 0;
  /// For passes of a stage of a pipeline.
  virtual void set_pipeline(nn::pipeline_link& link) = 0;
  /// Connects passes with other ranks. `by_leaf`: see parallel::gradient_sums.
  virtual void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool by_leaf) = 0;

  /// The weights of the model on this rank, with an adapter those of the base.
  virtual resident_weights<Device> resident() = 0;

  /// Begins sums besides those of shared parameters; present[i]: has leaf i rows?
  virtual void begin(const std::vector<bool>& present) { static_cast<void>(present); }
  /// A pass without rows, for the rows of other ranks; only if passes(round) may be more than this rank's own.
  virtual void idle(bool recompute) { static_cast<void>(recompute); }
  /// The number of passes that this rank makes in a round.
  virtual std::size_t passes(const leaf_round& round, const parallel::leaf_schedule& schedule) const {
    static_cast<void>(schedule);
    return round.has_rows() ? round.plan.passes(round.leaf) : 0;
  }
  /// Makes the passes of a round and sums their gradients.
  virtual void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
                   const pass_function& f) = 0;
  /// Ends a round whose passes were made by a stage of a pipeline, instead of run().
  virtual void end_leaf(const leaf_round& round, step_gradient<Device>& gradient,
                        parallel::gradient_sums<Device>& sums) {
    if (!round.has_rows())
      sums.skip(round.number);
    else if (sums.by_leaf())
      gradient.hand_over(sums, round.number);
  }
  /// Sums the remaining `gradient` of run().
  virtual void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) = 0;
  /// The norm of the whole gradient; this rank holds `sum` of the shared one.
  virtual double norm(sharded_update<Device>& update, const float* sum) { return update.norm(sum); }
  /// Takes the step, and shares the result with the ranks that need it.
  virtual void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
                    float scale) = 0;
  /// Frees the memory of sums besides those of shared parameters until the next step.
  virtual void release() {}

 protected:
  /// The step of weights() that all ranks hold: each steps its shard, and gathers the others'.
  void step_and_gather(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
                       float scale) {
    float* const values = weights().data();
    optimizer.step(update.pieces(), values, sum, lr, scale);
    update.gather(values);
  }
};

/// With ZeRO 1 or more a rank's optimizer updates its shard, and the ranks gather the updated values. Each tensor
/// parallel rank holds its whole part.
template <class Device>
class whole_values final : public held_values<Device> {
 public:
  /// Null `adapter`: all weights are trained. Both must outlive this object.
  whole_values(nn::causal_lm<Device>& model, nn::lora<Device>* adapter) : model_(&model), adapter_(adapter) {}

  const nn::causal_lm<Device>& passing() const override { return *model_; }
  std::span<const nn::parameter> parameters() const override {
    return adapter_ ? adapter_->parameters() : model_->own_parameters();
  }
  buffer<float, Device>& weights() override { return adapter_ ? adapter_->values() : model_->weights(); }
  /// By its place among the parameters.
  const float* place_of(const owned_run& run) override {
    return (adapter_ ? std::as_const(*adapter_).values() : std::as_const(*model_).weights()).data() + run.weights;
  }
  void set_tensor_group(nn::tensor_group& group) override { model_->set_tensor_group(&group); }
  void set_pipeline(nn::pipeline_link& link) override { model_->set_pipeline(&link); }
  void join(nn::workspace<Device>&, step_gradient<Device>&, bool) override {}

  resident_weights<Device> resident() override { return {model_->weights(), model_->parameters()}; }

  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    if (!round.has_rows()) {
      sums.skip(round.number);
    } else if (float* const left = sums.left_of(round.number);
               left != nullptr && gradient.can_add_by_units(*model_) && round.plan.passes(round.leaf) == 1) {
      gradient.add_by_units(*model_, left, [&] { round.run(f); });
      sums.skip(round.number);
    } else {
      gradient.borrow(sums);
      round.run(f);
      if (sums.by_leaf()) gradient.hand_over(sums, round.number);
    }
  }
  void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) override {
    if (!sums.by_leaf()) gradient.hand_over(sums, 0);
  }
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
            float scale) override {
    this->step_and_gather(optimizer, update, sum, lr, scale);
  }

 private:
  nn::causal_lm<Device>* model_;
  nn::lora<Device>* adapter_;
};

/// Passes gather the weights layer by layer, and send gradients to their owners as soon as a layer or a leaf is
/// complete. Expert parallel ranks hold shards of all experts, and compute their own.
template <class Device>
class sharded_values final : public held_values<Device> {
 public:
  /// `model` is in units; both must outlive this object.
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
  const sharded_weights<Device>* shards() const override { return &layers_; }
  void set_tensor_group(nn::tensor_group& group) override { model_->set_tensor_group(&group); }
  void set_pipeline(nn::pipeline_link& link) override { model_->set_pipeline(&link); }
  void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool) override {
    if (world_->expert().size() > 1) experts_.emplace(*world_, *model_, space, gradient.of_weights(), false);
  }

  resident_weights<Device> resident() override { return layers_.resident(); }

  /// With at most one pass in the round, gradients are sent to their owners layer by layer, otherwise per completed
  /// leaf.
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

/// LoRA with the base in shards: passes gather the merged weights layer by layer. Adapters and their gradients are
/// whole on every rank until the leaf is complete, their moments in shards.
template <class Device>
class sharded_base final : public held_values<Device> {
 public:
  /// `model` is in units; all must outlive this object.
  sharded_base(nn::causal_lm<Device>& model, nn::lora<Device>& adapter, parallel::world& w)
      : model_(&model), adapter_(&adapter), layers_(model, w, !w.settings().reshard_after_forward) {
    std::vector<typename nn::lora<Device>::held_part> parts;
    for (const optim::adamw_piece& p : layers_.pieces()) parts.push_back({p.first, p.last, p.weights});
    adapter.hold(layers_.shard(), parts);
  }

  const nn::causal_lm<Device>& passing() const override { return *model_; }
  std::span<const nn::parameter> parameters() const override { return adapter_->parameters(); }
  /// Throws std::logic_error while weights are gathered, since they could not be merged.
  buffer<float, Device>& weights() override {
    if (layers_.gathered()) throw std::logic_error("rlcore: weights are gathered: end that before a step or restore()");
    return adapter_->values();
  }
  /// By its place among the parameters.
  const float* place_of(const owned_run& run) override {
    return std::as_const(*adapter_).values().data() + run.weights;
  }
  gathered_layers<Device>* gathered() override { return &layers_; }
  const sharded_weights<Device>* shards() const override { return &layers_; }
  void set_tensor_group(nn::tensor_group& group) override { model_->set_tensor_group(&group); }
  void set_pipeline(nn::pipeline_link& link) override { model_->set_pipeline(&link); }
  void join(nn::workspace<Device>&, step_gradient<Device>&, bool) override {}

  resident_weights<Device> resident() override { return layers_.resident(); }

  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    const std::size_t most = model_->units() ? round.plan.most_passes(sums.schedule(), round.number) : 0;
    for (std::size_t passes = round.run(f); passes < most; ++passes) idle_pass(*model_, [](std::size_t) {});
    this->end_leaf(round, gradient, sums);
  }
  void end_rounds(step_gradient<Device>&, parallel::gradient_sums<Device>&) override {}
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
            float scale) override {
    this->step_and_gather(optimizer, update, sum, lr, scale);
  }

 private:
  nn::causal_lm<Device>* model_;
  nn::lora<Device>* adapter_;
  sharded_weights<Device> layers_;
};

/// The gradients of experts are sums over the rows of all ranks, added up among the ranks with the same experts.
template <class Device>
class expert_values final : public held_values<Device> {
 public:
  /// `model` is in units; both must outlive this object.
  expert_values(nn::causal_lm<Device>& model, parallel::world& w) : model_(&model), world_(&w), experts_(model, w) {}

  const nn::causal_lm<Device>& passing() const override { return experts_.part; }
  std::span<const nn::parameter> parameters() const override { return experts_.part.parameters(); }
  std::span<const nn::parameter> shared_parameters() const override { return experts_.shared_parameters(); }
  buffer<float, Device>& weights() override { return experts_.part.weights(); }
  /// By its place among the parameters.
  const float* place_of(const owned_run& run) override {
    return std::as_const(experts_.part).weights().data() + run.weights;
  }
  gathered_layers<Device>* gathered() override { return &experts_; }
  std::size_t further_size() const override { return experts_.shard_size(); }
  std::vector<optim::adamw_piece> further_pieces(std::size_t before) const override { return experts_.pieces(before); }
  void set_tensor_group(nn::tensor_group& group) override {
    model_->set_tensor_group(&group);
    experts_.part.set_tensor_group(&group);
  }
  void set_pipeline(nn::pipeline_link& link) override {
    model_->set_pipeline(&link);
    experts_.part.set_pipeline(&link);
  }
  /// Gradients of remote experts have memory only if leaves are taken one by one.
  void join(nn::workspace<Device>& space, step_gradient<Device>& gradient, bool by_leaf) override {
    passes_.emplace(*world_, experts_.part, space, gradient.of_weights(), !by_leaf);
  }

  resident_weights<Device> resident() override { return experts_.resident(); }

  void begin(const std::vector<bool>& present) override { experts_.sums().begin(present); }
  void idle(bool recompute) override { passes_->idle(recompute); }
  /// Ranks with fewer passes still compute their experts for remote rows.
  std::size_t passes(const leaf_round& round, const parallel::leaf_schedule& schedule) const override {
    return round.plan.most_passes(schedule, round.number);
  }
  void run(const leaf_round& round, step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums,
           const typename held_values<Device>::pass_function& f) override {
    const std::size_t most = passes(round, sums.schedule());
    for (std::size_t made = round.run(f); made < most; ++made) passes_->idle(round.recompute);
    end_leaf(round, gradient, sums);
  }
  void end_leaf(const leaf_round& round, step_gradient<Device>& gradient,
                parallel::gradient_sums<Device>& sums) override {
    if (sums.by_leaf()) experts_.take(round.number, gradient.of_weights(), round.has_rows(), sums);
  }
  void end_rounds(step_gradient<Device>& gradient, parallel::gradient_sums<Device>& sums) override {
    if (!sums.by_leaf()) experts_.lend_sums(gradient.of_weights(), sums);
  }
  double norm(sharded_update<Device>& update, const float* sum) override {
    expert_sum_ = experts_.sums().finish();
    return update.norm(sum, &experts_.squares_of(expert_sum_));
  }
  void step(optim::adamw<Device>& optimizer, sharded_update<Device>& update, const float* sum, double lr,
            float scale) override {
    this->step_and_gather(optimizer, update, sum, lr, scale);
    experts_.step(optimizer, update.shard_size(), expert_sum_, lr, scale);
  }
  void release() override { experts_.sums().release(), expert_sum_ = nullptr; }

 private:
  nn::causal_lm<Device>* model_;
  parallel::world* world_;
  expert_shards<Device> experts_;
  std::optional<expert_passes<Device>> passes_;
  const float* expert_sum_ = nullptr;
};

}  // namespace train

RLCORE_END
