// A checkpoint that several ranks write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "rlcore/checkpoint/atomic_folder.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/parallel/world.hpp"

RLCORE_BEGIN
namespace trainer {

/// What the first rank says, in all ranks.
template <class T>
T from_first(parallel::world& ranks, T x) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.all().broadcast(std::span<T>(&x, 1), 0);
  return x;
}

/// checkpoint::save_step: the first rank makes the folder, write(folder) fills it in all ranks, and when all are done
/// the first gives it its name. Whatever fails in any rank, older checkpoints stay intact.
template <class Write>
void save_step_together(const std::filesystem::path& root, std::int64_t step, std::int64_t keep, parallel::world* ranks,
                        Write&& write) {
  if (ranks == nullptr || ranks->all().size() == 1)
    return checkpoint::save_step(root, step, keep, std::forward<Write>(write));
  std::optional<checkpoint::atomic_folder> folder;
  if (ranks->first()) folder.emplace(checkpoint::step_folder(root, step));
  std::string path = folder ? folder->path().string() : std::string();
  path.resize(from_first(*ranks, path.size()));
  ranks->all().broadcast(std::span<char>(path), 0);
  write(std::filesystem::path(path));
  ranks->all().barrier();
  if (folder) {
    folder->commit();
    checkpoint::write_file_atomically(root / checkpoint::tracker_name, std::to_string(step));
    checkpoint::delete_old_checkpoints(root, step, keep);
  }
  ranks->all().barrier();
}

}  // namespace trainer
RLCORE_END
