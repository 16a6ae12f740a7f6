// Multi-rank training strategy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/parallel/context_plan.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"
#include "rlcore/parallel/pipeline/division.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/pipeline/pipeline_stage.hpp"
#include "rlcore/train/model/sharded/expert_shards.hpp"
#include "rlcore/train/model/sharded/gathered_layers.hpp"
#include "rlcore/train/model/sharded/sharded_update.hpp"
#include "rlcore/train/model/strategy/training_strategy.hpp"
#include "rlcore/train/model/strategy/values.hpp"

RLCORE_BEGIN
namespace train {

/// The config with the tp_reduce_chunks of the run.
inline nn::config config_of(nn::config config, const parallel::world* world) {
  if (world && world->settings().tp_reduce_chunks > 0) config.tp_reduce_chunks = world->settings().tp_reduce_chunks;
  return config;
}

/// This rank's tensors of its stage, including all experts. Throws config_error if the layers cannot be divided.
inline nn::partition part_of(parallel::world* world, const nn::config& config) {
  if (!world) return {};
  nn::partition part{world->tensor().rank(), world->tensor().size(), 0, 1};
  const parallel::pipeline_division& pipeline = world->settings().pipeline;
  if (pipeline.stages == 1) return part;
  if (config.vision) throw config_error("pipeline parallel: models with a vision tower are not divided into stages");
  const int stage = world->place().stage;
  const parallel::index_range layers =
      parallel::divide_layers(config.num_hidden_layers, pipeline)[static_cast<std::size_t>(stage)];
  part.stage = {stage, pipeline.stages, static_cast<std::int64_t>(layers.first),
                static_cast<std::int64_t>(layers.last)};
  return part;
}

/// Throws config_error for a model that ranks cannot divide into both stages and experts.
inline void refuse_tied_experts(parallel::world& w, const nn::config& config) {
  if (w.pipeline().size() > 1 && w.expert().size() > 1 && config.tied())
    throw config_error("pipeline parallel: ranks cannot divide the experts of a model whose embedding is tied");
}

/// Whether ranks hold shards of weights (zero 3); passes then run unit by unit.
inline bool has_shards(parallel::world* world) {
  return world && world->settings().zero == 3 && world->place().shard_size > 1;
}

/// Whether each rank holds only its own experts. With sharded weights ranks hold shards of all experts.
inline bool divides_experts(parallel::world* world) {
  return world && world->expert().size() > 1 && !has_shards(world);
}

}  // namespace train

/// One rank's share of a model in training under parallel_settings (training_strategy.hpp). The kind of held_values is
/// chosen once; its virtual hooks implement the differences.
template <class Device>
class any_strategy::share {
 public:
  /// The rank's tensors. Weights that passes gather on demand have no memory. Throws
  /// config_error if the model cannot be partitioned for these ranks.
  static nn::causal_lm<Device> make_model(const any_strategy& strategy, Device& device, const nn::config& config,
                                          bool adapters) {
    parallel::world* const w = strategy.world();
    if (adapters && w->expert().size() > 1) {
      nn::check_partition(config, {0, 1, w->expert().rank(), w->expert().size()});
      throw config_error("expert parallel: adapters (LoRA) cannot be trained while ranks divide experts");
    }
    train::refuse_tied_experts(*w, config);
    const bool in_units = train::has_shards(w) || train::divides_experts(w);
    return nn::causal_lm<Device>(device, train::config_of(config, w), train::part_of(w, config),
                                 in_units ? nn::weights_in::units : nn::weights_in::memory);
  }

  /// Null `adapter`: all weights are trained.
  share(const any_strategy& strategy, nn::causal_lm<Device>& model, nn::lora<Device>* adapter)
      : strategy_(strategy),
        world_(strategy.world()),
        model_(&model),
        tensor_(world_->tensor(), settings().sequence_parallel),
        values_(make_values(model, adapter)),
        stage_(world_->pipeline().size() > 1
                   ? std::make_unique<train::pipeline_stage<Device>>(model, *values_, *world_, adapter == nullptr)
                   : nullptr),
        update_(model.device(), *world_,
                adapter ? std::vector<std::size_t>{adapter->size()} : nn::unit_ends(values_->shared_parameters()),
                train::counted_ranges(values_->shared_parameters(), model.part().tensor_rank),
                adapter ? nn::unit_begins(adapter->parameters()) : nn::expert_begins(values_->shared_parameters()),
                adapter ? std::vector{static_cast<std::size_t>(model.part().stage.stage)}
                        : nn::unit_numbers(values_->shared_parameters())) {}
  share(const share&) = delete;
  share& operator=(const share&) = delete;

  const nn::causal_lm<Device>& passing() const { return values_->passing(); }
  std::span<const nn::parameter> parameters() const { return values_->parameters(); }
  buffer<float, Device>& weights() { return values_->weights(); }
  std::size_t optimizer_size() const { return update_.shard_size() + values_->further_size(); }
  std::vector<optim::adamw_piece> pieces() const {
    std::vector<optim::adamw_piece> pieces(update_.pieces().begin(), update_.pieces().end());
    for (const optim::adamw_piece& p : values_->further_pieces(update_.shard_size())) pieces.push_back(p);
    return pieces;
  }
  /// Throws config_error if the attention or the device does not support the context group.
  void join(nn::workspace<Device>& space, train::step_gradient<Device>& gradient) {
    space.context = {&world_->context(), settings().how_context};
    nn::check_context(model_->device(), space.context);
    values_->set_tensor_group(tensor_);
    values_->join(space, gradient, update_.sums().by_leaf());
    if (stage_) stage_->join(space);
  }
  /// The stage of a pipeline; null without one.
  train::pipeline_stage<Device>* stage() const noexcept { return stage_.get(); }
  /// A call for all ranks. In a stage of a pipeline the weights are those of the stage.
  train::full_params<Device> gather_full_params() { return train::full_params<Device>(values_->gathered()); }
  /// This rank's shard of the model's weights (ZeRO 3), otherwise null.
  const train::sharded_weights<Device>* shards() const { return values_->shards(); }

  /// The weights of the model on this rank, with LoRA those of the base. Throws std::logic_error while weights are
  /// gathered.
  train::resident_weights<Device> resident() { return values_->resident(); }
  /// Address of the values of a run of this rank's optimizer.
  const float* place_of(const train::owned_run& run) const { return values_->place_of(run); }

  void begin_update() { dealt_ = false; }
  /// Frees the memory of gradients until the next step.
  void release(train::step_gradient<Device>& gradient) {
    update_.sums().release(), values_->release();
    gradient.release();
    if (stage_) stage_->release();
  }
  /// The rank with the most passes sets their number in a round. Counts are summed over the data ranks; a pass has
  /// summed them over its context ranks.
  template <class F, class Idle>
  void count_passes(const train::leaf_plan& plan, nn::router_counts& counts, F&& f, Idle&& idle) {
    const parallel::leaf_schedule& schedule = update_.sums().schedule();
    for (std::size_t n = 0; n < schedule.rounds(); ++n) {
      std::size_t passes = round_of(plan, n, false).run(f);
      for (const std::size_t most = plan.most_passes(schedule, n); passes < most; ++passes) idle();
    }
    const std::size_t size = counts.values.size();
    // Context ranks have counted the same rows.
    const auto contexts = static_cast<std::size_t>(world_->place().context_size);
    const auto sum_over = [&](parallel::any_communicator& ranks, std::size_t stride) {
      std::vector<std::int64_t> gathered(size * static_cast<std::size_t>(ranks.size()));
      ranks.all_gather(std::span<const std::int64_t>(counts.values), std::span<std::int64_t>(gathered));
      std::fill(counts.values.begin(), counts.values.end(), 0);
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks.size()); r += stride)
        for (std::size_t i = 0; i < size; ++i) counts.values[i] += gathered[r * size + i];
    };
    sum_over(world_->sums(), contexts);
    parallel::meet_stages(*world_);
    sum_over(world_->pipeline(), 1);
  }
  /// Runs the schedule of leaves round by round.
  template <class F>
  void micro_batches(const train::leaf_plan& plan, train::step_gradient<Device>& gradient, bool recompute, F&& f) {
    if (std::exchange(dealt_, true)) throw std::logic_error("rlcore: for_micro_batches: once in an optimizer step");
    parallel::gradient_sums<Device>& sums = update_.sums();
    sums.begin(plan.present());
    values_->begin(plan.present());
    if (stage_) {
      std::vector<train::leaf_round> rounds;
      for (std::size_t n = 0; n < sums.schedule().rounds(); ++n) rounds.push_back(round_of(plan, n, recompute));
      return stage_->run(rounds, gradient, sums, std::ref(f));
    }
    for (std::size_t n = 0; n < sums.schedule().rounds(); ++n)
      values_->run(round_of(plan, n, recompute), gradient, sums, std::ref(f));
  }
  /// Sums the ranks' leaf sums over ranks. A single rank's sum stays in `gradient`.
  double reduce(train::step_gradient<Device>& gradient) {
    if (strategy_.size() == 1 && !update_.sums().by_leaf()) {
      gradient.with([&](auto& g) { sum_ = g.data(); });
      return values_->norm(update_, sum_);
    }
    if (dealt_ && stage_) {
      stage_->end_rounds(gradient, update_.sums());
    } else if (dealt_) {
      values_->end_rounds(gradient, update_.sums());
    } else {
      if (strategy_.size() > 1)
        throw std::logic_error("rlcore: apply: rows have to be dealt to ranks by for_micro_batches");
      update_.sums().begin(std::vector<bool>(update_.sums().schedule().leaves(), true));
      gradient.hand_over(update_.sums(), 0);
    }
    sum_ = update_.sums().finish();
    return values_->norm(update_, sum_);
  }
  /// Takes the step on the sum of the last reduce(). A call for all ranks.
  void step(optim::adamw<Device>& optimizer, double lr, float scale) {
    values_->step(optimizer, update_, sum_, lr, scale);
    if (stage_) stage_->copy_embedding();
  }

 private:
  const parallel::parallel_settings& settings() const noexcept { return world_->settings(); }
  std::unique_ptr<train::held_values<Device>> make_values(nn::causal_lm<Device>& model, nn::lora<Device>* adapter) {
    if (adapter && train::has_shards(world_))
      return std::make_unique<train::sharded_base<Device>>(model, *adapter, *world_);
    if (adapter) return std::make_unique<train::whole_values<Device>>(model, adapter);
    if (train::has_shards(world_)) return std::make_unique<train::sharded_values<Device>>(model, *world_);
    if (train::divides_experts(world_)) return std::make_unique<train::expert_values<Device>>(model, *world_);
    return std::make_unique<train::whole_values<Device>>(model, nullptr);
  }
  train::leaf_round round_of(const train::leaf_plan& plan, std::size_t number, bool recompute) {
    const auto rank = static_cast<std::size_t>(world_->data().rank());
    return {plan, number, update_.sums().schedule().leaf(rank, number), recompute};
  }

  any_strategy strategy_;
  parallel::world* world_;
  nn::causal_lm<Device>* model_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  std::unique_ptr<train::held_values<Device>> values_;
  std::unique_ptr<train::pipeline_stage<Device>> stage_;
  train::sharded_update<Device> update_;
  const float* sum_ = nullptr;
  bool dealt_ = false;
};

/// One rank's share of a frozen model under parallel_settings.
template <class Device>
class any_strategy::frozen {
 public:
  /// The rank's tensors, without memory for weights that passes gather on demand.
  static nn::causal_lm<Device> make_model(const any_strategy& strategy, Device& device, const nn::config& config,
                                          bool packed) {
    parallel::world* const w = strategy.world();
    train::refuse_tied_experts(*w, config);
    const bool in_units = train::has_shards(w) || train::divides_experts(w);
    packed = packed && w->pipeline().size() == 1;
    return nn::causal_lm<Device>(device, train::config_of(config, w), train::part_of(w, config),
                                 in_units ? nn::weights_in::units : train::frozen_weights_in(packed));
  }
  /// `model` must outlive this object.
  frozen(any_strategy strategy, nn::causal_lm<Device>& model)
      : strategy_(std::move(strategy)),
        model_(&model),
        tensor_(strategy_.world()->tensor(), strategy_.settings().sequence_parallel) {
    parallel::world* const w = strategy_.world();
    if (train::has_shards(w)) layers_ = std::make_unique<train::sharded_weights<Device>>(model, *w, false);
    if (train::divides_experts(w)) experts_ = std::make_unique<train::expert_shards<Device>>(model, *w);
    model.set_tensor_group(&tensor_);
    if (w->pipeline().size() > 1)
      model.set_pipeline(&link_.emplace(w->forwards(), w->backwards(), train::patience_of_stage(*w)));
  }
  /// The weights of the model on this rank. Throws std::logic_error while weights are gathered.
  train::resident_weights<Device> resident() {
    if (layers_) return layers_->resident();
    if (experts_) return experts_->resident();
    return {model_->weights(), model_->parameters()};
  }

 private:
  any_strategy strategy_;
  nn::causal_lm<Device>* model_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  std::optional<train::stage_link> link_;
  std::unique_ptr<train::sharded_weights<Device>> layers_;
  std::unique_ptr<train::expert_shards<Device>> experts_;
};

RLCORE_END
