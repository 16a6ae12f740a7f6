// Reads optimizer moments from a checkpoint.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/checkpoint/tensor_folder.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/training/files/owned_run.hpp"

RLCORE_BEGIN
namespace trainer {

/// Reads the moments of `runs` from a checkpoint of any number of ranks; m and v are all moments of the optimizer.
/// Throws file_error or format_error naming the tensor.
inline void read_moments(const std::filesystem::path& folder, std::span<const owned_run> runs, std::span<float> m,
                         std::span<float> v) {
  const std::filesystem::path shards = checkpoint::find_shards(folder);
  for (const bool first : {true, false}) {
    const std::string kind = first ? "exp_avg" : "exp_avg_sq";
    const std::span<float> values = first ? m : v;
    if (!shards.empty()) {
      checkpoint::shard_reader reader(shards, kind);
      for (const owned_run& r : runs) reader.read(r.piece, values.subspan(r.moments, r.piece.size()));
      continue;
    }
    const checkpoint::safetensors_reader whole(folder / "optim.safetensors");
    for (const owned_run& r : runs) {
      const std::string name = kind + "." + r.piece.tensor;
      if (const auto& shape = whole.info(name).shape; shape != r.piece.shape)
        throw format_error(whole.path().string() + ": tensor '" + name + "' has shape " +
                           checkpoint::shape_text(shape) + "; expected " + checkpoint::shape_text(r.piece.shape));
      parallel::for_each_overlap(parallel::whole_tensor(name, r.piece.shape), r.piece,
                                 [&](std::size_t from, std::size_t to, std::size_t count) {
                                   whole.read_f32(name, values.subspan(r.moments + to, count), from);
                                 });
    }
  }
}

}  // namespace trainer
RLCORE_END
