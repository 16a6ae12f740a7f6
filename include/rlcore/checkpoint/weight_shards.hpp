// How the weights of a model are divided among files: model.safetensors, or several and their index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace checkpoint {

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
