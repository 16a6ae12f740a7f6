// Sharded checkpoints: saves and loads a rank's weights and moments as pieces of tensors.
//
//   huggingface/     config, tokenizer; the weights too if they are asked for
//   shards/          weights (with LoRA: adapter), exp_avg and exp_avg_sq of what is trained, in pieces of all ranks
//   lora_adapter/    with LoRA: the adapters, as PEFT writes them
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/checkpoint/shard_writer.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/training/files/owned_run.hpp"

RLCORE_BEGIN
namespace trainer {

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
  for (const nn::parameter& p : parameters) pieces.push_back(checkpoint::piece_of(p));
  checkpoint::write_shards(ranks, passing, pieces, {"weights"},
                           [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> values) {
                             device.download(values.data(), weights + parameters[piece].offset + first,
                                             values.size_bytes());
                           });
  save_weights_of_shards(ranks, folder, passing);
  if (ranks.rank() == 0) std::filesystem::remove_all(passing);
}

/// Reads the weights of `runs` into their places among the moments, from a checkpoint of any number of ranks. The
/// checkpoint must contain all `parameters`. Throws file_error or format_error naming the tensor.
inline void read_weights(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                         std::span<const owned_run> runs, std::span<float> values) {
  const checkpoint::tensor_folder from(folder / "huggingface");
  checkpoint::check_tensors(from, parameters, [](const std::string&) { return false; });
  for (const owned_run& r : runs) from.read_f32(r.piece, values.subspan(r.moments, r.piece.size()));
}

}  // namespace trainer
RLCORE_END
