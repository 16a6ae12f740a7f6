// A model that is not trained, such as a reference, between ranks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/parallel/tensor_group.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/training/files/model_files.hpp"
#include "rlcore/training/rank_model.hpp"
#include "rlcore/training/sharded/expert_shards.hpp"
#include "rlcore/training/sharded/sharded_weights.hpp"

RLCORE_BEGIN
namespace trainer {

/// Ranks have as much of it as of a model that they train: tensor parallel ranks their parts, with zero 3 a shard,
/// expert parallel ranks their experts, and in passes the rest is collected unit by unit; else all of it.
template <class Device>
class frozen_model {
 public:
  nn::causal_lm<Device> model;

  /// `world` (may be null) has to outlive this.
  frozen_model(Device& device, const nn::config& config, parallel::world* world)
      : model(device, config_of(config, world), part_of(world), has_shards(world) || divides_experts(world)),
        units_(has_shards(world) ? std::make_unique<sharded_weights<Device>>(model, *world, false) : nullptr),
        divided_(divides_experts(world) ? std::make_unique<expert_shards<Device>>(model, *world) : nullptr) {
    if (world && world->tensor().size() > 1)
      model.set_tensor_group(&tensor_.emplace(world->tensor(), world->settings().sequence_parallel));
  }
  frozen_model(const frozen_model&) = delete;
  frozen_model& operator=(const frozen_model&) = delete;

  /// The weights of a Hugging Face folder. A rank with a shard reads that alone.
  void load(const std::filesystem::path& folder, std::uint64_t seed = 1) {
    if (units_) return units_->load(folder, seed);
    if (divided_) return divided_->load(folder, seed);
    load_model(model, folder, seed);
  }

 private:
  std::unique_ptr<sharded_weights<Device>> units_;
  std::unique_ptr<expert_shards<Device>> divided_;
  std::optional<nn::tensor_group_of<parallel::any_communicator>> tensor_;
};

}  // namespace trainer
RLCORE_END
