// Saves a training checkpoint from one rank or several.
//
// Sharded checkpoints: saves and loads a rank's weights and moments as pieces of tensors.
//
//   huggingface/     config, tokenizer; the weights too if they are asked for
//   shards/          weights (with LoRA: adapter), exp_avg and exp_avg_sq of what is trained, in pieces of all ranks
//   lora_adapter/    with LoRA: the adapters, as PEFT writes them
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/checkpoint/shard_writer.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/saved_state.hpp"

RLCORE_BEGIN
namespace train {

/// The training state that a checkpoint saves.
template <class Device>
struct trained_state {
  const nn::causal_lm<Device>& model;
  const nn::lora<Device>* adapter = nullptr;  ///< null: all weights are trained
  const optim::adamw<Device>& optimizer;
  const std::string& base_name;         ///< what adapter folders call the base
  const model_source& from;             ///< its files are saved beside the weights
  const nlohmann::ordered_json& extra;  ///< extra_state.json
  bool save_whole = false;              ///< several ranks write the weights of huggingface/ too
};

/// extra_state.json and fsdp_config.json.
inline void save_settings(const std::filesystem::path& folder, const nlohmann::ordered_json& state, int ranks) {
  checkpoint::write_file_atomically(folder / "extra_state.json", text::json_text(state, 2) + "\n");
  const nlohmann::ordered_json fsdp{{"FSDP_version", 1}, {"world_size", ranks}};
  checkpoint::write_file_atomically(folder / "fsdp_config.json", text::json_text(fsdp, 2) + "\n");
}

/// Writes the files listed in trained_files.hpp from a rank that holds everything.
template <class Device>
void save_by_one(const std::filesystem::path& folder, const trained_state<Device>& state) {
  Device& device = state.model.device();
  const std::span<const nn::parameter> trained = state.adapter ? state.adapter->parameters() : state.model.parameters();
  save_model(folder / "huggingface", state.model, state.from);
  if (state.adapter)
    save_adapter(folder, state.model.settings(), state.adapter->settings(), state.base_name, trained,
                 to_host(device, state.adapter->values()));
  std::vector<float> m, v;
  checkpoint::write_safetensors(
      folder / "optim.safetensors",
      moment_tensors(trained, on_host(device, state.optimizer.m(), m), on_host(device, state.optimizer.v(), v)));
  save_settings(folder, state.extra, 1);
}

/// Writes the runs of all ranks to <folder>/shards: the weights of a run, at weights(run), as `kind`, and the moments.
template <class Device, class Weights>
void save_runs(parallel::any_communicator& ranks, const std::filesystem::path& folder, const std::string& kind,
               std::span<const owned_run> runs, Device& device, Weights&& weights, const float* m, const float* v) {
  std::vector<checkpoint::shard_piece> pieces;
  for (const owned_run& r : runs) pieces.push_back(r.piece);
  checkpoint::write_shards(ranks, folder / checkpoint::shard_folder_name, pieces, {kind, "exp_avg", "exp_avg_sq"},
                           [&](std::size_t k, std::size_t piece, std::size_t first, std::span<float> values) {
                             const owned_run& run = runs[piece];
                             const float* from = k == 0 ? weights(run) : (k == 1 ? m : v) + run.moments;
                             device.download(values.data(), from + first, values.size_bytes());
                           });
}

/// Writes the safetensors of <folder>/huggingface from the shards in `shards`. Rank 0 writes them block by block and
/// broadcasts after every `beat` bytes, so that no rank waits longer than for one beat.
inline void save_weights_of_shards(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                                   const std::filesystem::path& shards, std::uint64_t beat = std::uint64_t{1} << 30) {
  int more = 1;
  if (ranks.rank() != 0) {
    while (more != 0) ranks.broadcast(std::span<int>(&more, 1), 0);
    return;
  }
  checkpoint::folder_weights from(shards);
  std::uint64_t told = 0;
  checkpoint::stream_to_folder(from, folder / "huggingface", {checkpoint::stored_type::f32},
                               [&](std::uint64_t done, std::uint64_t) {
                                 if (done - told < beat) return;
                                 told = done;
                                 ranks.broadcast(std::span<int>(&more, 1), 0);
                               });
  more = 0;
  ranks.broadcast(std::span<int>(&more, 1), 0);
}

/// Writes frozen weights as the safetensors of <folder>/huggingface. Every rank holds all of them or its rectangles.
/// They are staged as shards, which rank 0 deletes afterwards.
template <class Device>
void save_whole_weights(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                        std::span<const nn::parameter> parameters, Device& device, const float* weights) {
  const std::filesystem::path passing = folder / "passing_shards";
  std::vector<checkpoint::shard_piece> pieces;
  for (const nn::parameter& p : parameters) pieces.push_back(nn::piece_of(p));
  checkpoint::write_shards(ranks, passing, pieces, {"weights"},
                           [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> values) {
                             device.download(values.data(), weights + parameters[piece].offset + first,
                                             values.size_bytes());
                           });
  save_weights_of_shards(ranks, folder, passing);
  if (ranks.rank() == 0) std::filesystem::remove_all(passing);
}

/// Writes the folders listed above. This rank's optimizer holds `runs`, whose trained values are at
/// place_of(run). All ranks call it together.
template <class Device, class PlaceOf>
void save_by_ranks(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                   const trained_state<Device>& state, std::span<const owned_run> runs, PlaceOf&& place_of) {
  const nn::causal_lm<Device>& model = state.model;
  save_runs(ranks, folder, state.adapter ? "adapter" : "weights", runs, model.device(), place_of,
            state.optimizer.m().data(), state.optimizer.v().data());
  if (ranks.rank() == 0) {
    save_config(folder / "huggingface", model, state.from);
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

/// Returns the first rank's `x` on every rank.
template <class T>
T from_first(parallel::world& ranks, T x) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.all().broadcast(std::span<T>(&x, 1), 0);
  return x;
}

/// Calls checkpoint::save_step() for one rank, or for all `ranks` together.
template <class Write>
void save_step_together(const std::filesystem::path& root, std::int64_t step, std::int64_t keep, parallel::world* ranks,
                        Write&& write) {
  if (ranks == nullptr || ranks->all().size() == 1)
    return checkpoint::save_step(root, step, keep, std::forward<Write>(write));
  checkpoint::save_step(ranks->all(), root, step, keep, std::forward<Write>(write));
}

}  // namespace train

RLCORE_END
