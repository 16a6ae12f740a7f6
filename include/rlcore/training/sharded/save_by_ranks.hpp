// Saves a training checkpoint from several ranks.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/training/files/save_by_one.hpp"
#include "rlcore/training/sharded/sharded_state.hpp"

RLCORE_BEGIN
namespace trainer {

/// Writes the folders of sharded_state.hpp. This rank's optimizer holds `runs`, whose trained values are at
/// place_of(run). All ranks call it together.
template <class Device, class PlaceOf>
void save_by_ranks(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                   const trained_state<Device>& state, std::span<const owned_run> runs, PlaceOf&& place_of) {
  const nn::causal_lm<Device>& model = state.model;
  save_runs(ranks, folder, state.adapter ? "adapter" : "weights", runs, model.device(), place_of,
            state.optimizer.m().data(), state.optimizer.v().data());
  if (ranks.rank() == 0) {
    save_config(folder / "huggingface", model, state.tokenizer_folder);
    if (state.adapter)
      save_adapter_of_shards(folder, model.settings(), state.adapter->settings(), state.base_name,
                             state.adapter->parameters());
    save_settings(folder, state.extra, ranks.size());
  }
  if (state.save_whole && state.adapter)
    save_whole_weights(ranks, folder, model.parameters(), model.device(), model.weights().data());
  if (state.save_whole && !state.adapter) save_weights_of_shards(ranks, folder, folder / checkpoint::shard_folder_name);
  ranks.barrier();
}

}  // namespace trainer
RLCORE_END
