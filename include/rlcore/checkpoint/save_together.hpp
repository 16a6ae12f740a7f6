// A step saved by all ranks of a run, all or nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rlcore/checkpoint/layout.hpp"
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

}  // namespace checkpoint
RLCORE_END
