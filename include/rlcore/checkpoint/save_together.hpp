// Collective checkpoint save: all ranks save one step atomically.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// As save_step() of one rank, for ranks that call it together: write(folder) fills the same temporary folder in all of
/// them and may use `c`. Rank 0 makes the folder, and gives it its name when all have returned from write(); a rank
/// that fails or is killed before leaves the older checkpoints and the tracker as they were. Returns when the step is
/// saved.
template <parallel::communicator C, class Write>
void save_step(C& c, const std::filesystem::path& root, std::int64_t step, std::int64_t keep, Write&& write) {
  std::optional<atomic_folder> folder;
  std::string path;
  if (c.rank() == 0) {
    folder.emplace(step_folder(root, step));
    path = folder->path().string();
  }
  std::size_t length = path.size();
  c.broadcast(std::span<std::size_t>(&length, 1), 0);
  path.resize(length);
  c.broadcast(std::span<char>(path), 0);
  write(std::filesystem::path(path));
  c.barrier();
  if (folder) {
    folder->commit();
    write_file_atomically(root / tracker_name, std::to_string(step));
    delete_old_checkpoints(root, step, keep);
  }
  c.barrier();
}

/// The files of tensors of `bytes` each, in order: the index of every file's first tensor, and the number of tensors. A
/// file has at most `max_shard_bytes` or one tensor alone; 0: one file has all.
inline std::vector<std::size_t> shard_bounds(std::span<const std::uint64_t> bytes, std::uint64_t max_shard_bytes) {
  std::vector<std::size_t> bounds{0};
  std::uint64_t in_shard = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (max_shard_bytes > 0 && in_shard > 0 && in_shard + bytes[i] > max_shard_bytes) {
      bounds.push_back(i);
      in_shard = 0;
    }
    in_shard += bytes[i];
  }
  bounds.push_back(bytes.size());
  return bounds;
}

/// "model.safetensors", or "model-00001-of-00002.safetensors" for `shard` 0 of 2.
inline std::string shard_name(std::size_t shard, std::size_t shards) {
  char name[64] = "model.safetensors";
  if (shards > 1) std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, shards);
  return name;
}

}  // namespace checkpoint

RLCORE_END
