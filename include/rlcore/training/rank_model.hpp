// Rank-dependent model configuration and partition.
#pragma once

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/parallel/partition.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace trainer {

/// The config with the tp_reduce_chunks of the run.
inline nn::config config_of(nn::config config, const parallel::world* world) {
  if (world && world->settings().tp_reduce_chunks > 0) config.tp_reduce_chunks = world->settings().tp_reduce_chunks;
  return config;
}

/// This rank's tensors, including all experts.
inline nn::partition part_of(parallel::world* world) {
  if (!world) return {};
  return {world->tensor().rank(), world->tensor().size(), 0, 1};
}

/// Whether ranks hold shards of weights (zero 3); passes then run unit by unit.
inline bool has_shards(parallel::world* world) {
  return world && world->settings().zero == 3 && world->place().shard_size > 1;
}

/// Whether each rank holds only its own experts. With sharded weights ranks hold shards of all experts.
inline bool divides_experts(parallel::world* world) {
  return world && world->expert().size() > 1 && !has_shards(world);
}

}  // namespace trainer
RLCORE_END
