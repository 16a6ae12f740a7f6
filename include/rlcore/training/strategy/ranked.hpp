// Multi-rank training strategy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/units.hpp"
#include "rlcore/nn/parallel/context_group.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/files/save_checkpoint.hpp"
#include "rlcore/training/rank_model.hpp"
#include "rlcore/training/sharded/expert_shards.hpp"
#include "rlcore/training/sharded/gathered_layers.hpp"
#include "rlcore/training/sharded/gradient_norm.hpp"
#include "rlcore/training/sharded/sharded_update.hpp"
#include "rlcore/training/strategy/training_strategy.hpp"
#include "rlcore/training/strategy/values.hpp"

RLCORE_BEGIN
/// One rank's share of a model in training under parallel_settings (training_strategy.hpp). The kind of held_values is
/// chosen once; its virtual hooks implement the differences.
template <class Device>
class any_strategy::share {
 public:
  /// The rank's tensors. Weights that passes gather on demand have no memory; adapters have a whole base. Throws
  /// config_error if the model cannot be partitioned for these ranks.
  static nn::causal_lm<Device> make_model(const any_strategy& strategy, Device& device, const nn::config& config,
                                          bool adapters) {
    parallel::world* const w = strategy.world();
    if (adapters && w->expert().size() > 1) {
      nn::check_partition(config, {0, 1, w->expert().rank(), w->expert().size()});
      throw config_error("expert parallel: adapters (LoRA) cannot be trained while ranks divide experts");
    }
    const bool in_units = (trainer::has_shards(w) || trainer::divides_experts(w)) && !adapters;
    return nn::causal_lm<Device>(device, trainer::config_of(config, w), trainer::part_of(w),
                                 in_units ? nn::weights_in::units : nn::weights_in::memory);
  }

  /// Null `adapter`: all weights are trained.
  share(const any_strategy& strategy, nn::causal_lm<Device>& model, nn::lora<Device>* adapter)
      : strategy_(strategy),
        world_(strategy.world()),
        model_(&model),
        tensor_(world_->tensor(), settings().sequence_parallel),
        values_(make_values(model, adapter)),
        update_(model.device(), *world_,
                adapter ? std::vector<std::size_t>{adapter->size()} : nn::unit_ends(values_->shared_parameters()),
                trainer::counted_ranges(values_->shared_parameters(), model.part().tensor_rank),
                nn::expert_begins(values_->shared_parameters())) {}
  share(const share&) = delete;
  share& operator=(const share&) = delete;

  bool gathers_layers() const noexcept { return trainer::has_shards(world_) && model_->units() != nullptr; }
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
  void join(nn::workspace<Device>& space, trainer::step_gradient<Device>& gradient) {
    space.context = {&world_->context(), settings().how_context};
    nn::check_context(model_->device(), model_->blocks().front().self_attention.shape, space.context);
    values_->set_tensor_group(tensor_);
    values_->join(space, gradient, update_.sums().by_leaf());
  }
  /// A call for all ranks.
  trainer::full_params<Device> gather_full_params() { return trainer::full_params<Device>(values_->gathered()); }
  /// The trained weights in the places of pieces() if this rank holds only these (ZeRO 3), otherwise null.
  const float* shard_of_weights() const {
    return trainer::has_shards(world_) && values_->gathered() ? values_->place_of({}) : nullptr;
  }

  /// Loads this rank's part of the weights in the folder.
  void load(const std::filesystem::path& folder, std::uint64_t seed) { values_->load(folder, seed); }
  /// This rank's trained values, from a checkpoint of any number of ranks.
  std::vector<float> read(const std::filesystem::path& folder) const { return values_->read(folder, runs()); }
  /// Writes the checkpoint together with all ranks.
  void save(const std::filesystem::path& folder, const trainer::trained_state<Device>& state) const {
    if (strategy_.size() == 1) return trainer::save_by_one(folder, state);
    trainer::save_by_ranks(world_->all(), folder, state, runs(),
                           [&](const trainer::owned_run& run) { return values_->place_of(run); });
  }

  void begin_update() { dealt_ = false; }
  /// The rank with the most passes sets their number in a round. Counts are summed over all ranks.
  template <class F, class Idle>
  void count_passes(const trainer::leaf_plan& plan, nn::router_counts& counts, F&& f, Idle&& idle) {
    const parallel::leaf_schedule& schedule = update_.sums().schedule();
    for (std::size_t n = 0; n < schedule.rounds(); ++n) {
      std::size_t passes = round_of(plan, n, false).run(f);
      for (const std::size_t most = plan.most_passes(schedule, n); passes < most; ++passes) idle();
    }
    parallel::any_communicator& ranks = world_->sums();
    const std::size_t size = counts.values.size();
    std::vector<std::int64_t> gathered(size * static_cast<std::size_t>(ranks.size()));
    ranks.all_gather(std::span<const std::int64_t>(counts.values), std::span<std::int64_t>(gathered));
    std::fill(counts.values.begin(), counts.values.end(), 0);
    for (std::size_t i = 0; i < gathered.size(); ++i) counts.values[i % size] += gathered[i];
  }
  /// Runs the schedule of leaves round by round.
  template <class F>
  void micro_batches(const trainer::leaf_plan& plan, trainer::step_gradient<Device>& gradient, bool recompute, F&& f) {
    if (std::exchange(dealt_, true)) throw std::logic_error("rlcore: for_micro_batches: once in an optimizer step");
    parallel::gradient_sums<Device>& sums = update_.sums();
    sums.begin(plan.present());
    values_->begin(plan.present());
    for (std::size_t n = 0; n < sums.schedule().rounds(); ++n)
      values_->run(round_of(plan, n, recompute), gradient, sums, std::ref(f));
  }
  /// Sums the ranks' leaf sums over ranks. A single rank's sum stays in `gradient`.
  double reduce(trainer::step_gradient<Device>& gradient) {
    if (strategy_.size() == 1 && !update_.sums().by_leaf()) {
      gradient.with([&](auto& g) { sum_ = g.data(); });
      return values_->norm(update_, sum_);
    }
    if (dealt_) {
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
  }

 private:
  const parallel::parallel_settings& settings() const noexcept { return world_->settings(); }
  std::unique_ptr<trainer::held_values<Device>> make_values(nn::causal_lm<Device>& model, nn::lora<Device>* adapter) {
    if (adapter) return std::make_unique<trainer::whole_values<Device>>(model, adapter);
    if (trainer::has_shards(world_)) return std::make_unique<trainer::sharded_values<Device>>(model, *world_);
    if (trainer::divides_experts(world_)) return std::make_unique<trainer::expert_values<Device>>(model, *world_);
    return std::make_unique<trainer::whole_values<Device>>(model, nullptr);
  }
  trainer::leaf_round round_of(const trainer::leaf_plan& plan, std::size_t number, bool recompute) {
    const auto rank = static_cast<std::size_t>(world_->data().rank());
    return {plan, number, update_.sums().schedule().leaf(rank, number), recompute};
  }
  std::vector<trainer::owned_run> runs() const { return trainer::owned_runs(parameters(), pieces()); }

  any_strategy strategy_;
  parallel::world* world_;
  nn::causal_lm<Device>* model_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  std::unique_ptr<trainer::held_values<Device>> values_;
  trainer::sharded_update<Device> update_;
  const float* sum_ = nullptr;
  bool dealt_ = false;
};

/// One rank's share of a frozen model under parallel_settings.
template <class Device>
class any_strategy::frozen {
 public:
  /// The rank's tensors, without memory for weights that passes gather on demand.
  static nn::causal_lm<Device> make_model(const any_strategy& strategy, Device& device, const nn::config& config) {
    parallel::world* const w = strategy.world();
    return nn::causal_lm<Device>(
        device, trainer::config_of(config, w), trainer::part_of(w),
        trainer::has_shards(w) || trainer::divides_experts(w) ? nn::weights_in::units : nn::weights_in::memory);
  }
  /// `model` must outlive this object.
  frozen(any_strategy strategy, nn::causal_lm<Device>& model)
      : strategy_(std::move(strategy)),
        model_(&model),
        tensor_(strategy_.world()->tensor(), strategy_.settings().sequence_parallel) {
    parallel::world* const w = strategy_.world();
    if (trainer::has_shards(w)) layers_ = std::make_unique<trainer::sharded_weights<Device>>(model, *w, false);
    if (trainer::divides_experts(w)) experts_ = std::make_unique<trainer::expert_shards<Device>>(model, *w);
    model.set_tensor_group(&tensor_);
  }
  /// Loads this rank's part of the weights in the folder.
  void load(const std::filesystem::path& folder, std::uint64_t seed) {
    if (layers_) return layers_->load(folder, seed);
    if (experts_) return experts_->load(folder, seed);
    trainer::load_model(*model_, folder, seed);
  }

 private:
  any_strategy strategy_;
  nn::causal_lm<Device>* model_;
  nn::tensor_group_of<parallel::any_communicator> tensor_;
  std::unique_ptr<trainer::sharded_weights<Device>> layers_;
  std::unique_ptr<trainer::expert_shards<Device>> experts_;
};

RLCORE_END
