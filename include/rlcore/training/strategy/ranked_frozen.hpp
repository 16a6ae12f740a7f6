// A model that several ranks hold and do not train.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/rank_model.hpp"
#include "rlcore/training/sharded/expert_shards.hpp"
#include "rlcore/training/sharded/sharded_weights.hpp"

RLCORE_BEGIN

/// What parallel_settings leave to one rank of a world.
template <class Device>
class any_strategy::frozen {
 public:
  /// The rank's tensors, without memory for weights that are gathered when passes need them.
  static nn::causal_lm<Device> make_model(const any_strategy& strategy, Device& device, const nn::config& config) {
    parallel::world* const w = strategy.world();
    return nn::causal_lm<Device>(
        device, trainer::config_of(config, w), trainer::part_of(w),
        trainer::has_shards(w) || trainer::divides_experts(w) ? nn::weights_in::units : nn::weights_in::memory);
  }
  /// `model` has to outlive this.
  frozen(any_strategy strategy, nn::causal_lm<Device>& model)
      : strategy_(std::move(strategy)),
        model_(&model),
        tensor_(strategy_.world()->tensor(), strategy_.settings().sequence_parallel) {
    parallel::world* const w = strategy_.world();
    if (trainer::has_shards(w)) layers_ = std::make_unique<trainer::sharded_weights<Device>>(model, *w, false);
    if (trainer::divides_experts(w)) experts_ = std::make_unique<trainer::expert_shards<Device>>(model, *w);
    model.set_tensor_group(&tensor_);
  }
  /// What this rank holds of the weights in the folder.
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
