// Folder layout of checkpoints, and saving by all ranks together.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/step_manifest.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/communicator/communicator.hpp"

RLCORE_BEGIN
namespace checkpoint {

inline constexpr std::string_view tracker_name = "latest_checkpointed_iteration.txt", step_prefix = "global_step_";

/// "<root>/global_step_{N}"
inline std::filesystem::path step_folder(const std::filesystem::path& root, std::int64_t step) {
  return root / (std::string(step_prefix) + std::to_string(step));
}

/// Parses a decimal number; nothing for other text.
std::optional<std::int64_t> parse_step(std::string_view text);

/// N of ".../global_step_N" (a slash at the end is allowed); nothing for any other name.
inline std::optional<std::int64_t> step_of(const std::filesystem::path& folder) {
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  if (!name.starts_with(step_prefix)) return std::nullopt;
  return parse_step(std::string_view(name).substr(step_prefix.size()));
}

/// Where a run continues: after `step` with the state in `folder`, or from the start (step 0, no folder).
struct resume_point {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::string notice;  ///< a line worth printing, or empty

  explicit operator bool() const noexcept { return !folder.empty(); }
};

/// The step that the tracker names; nothing when there is no tracker. Throws format_error when it is not a number.
std::optional<std::int64_t> read_tracker(const std::filesystem::path& root);

/// The checkpoint that the tracker names, if its folder exists; otherwise a fresh start with a notice.
resume_point find_latest(const std::filesystem::path& root);

/// verl's trainer.resume_mode: `auto` (find_latest), `disable`, or `resume_path` with `resume_from_path` ending in
/// global_step_N. Throws config_error.
resume_point find_resume(const std::string& mode, const std::string& resume_from_path,
                         const std::filesystem::path& root);

/// Deletes all but the newest `keep` checkpoints up to `newest` (keep <= 0: all stay), oldest first, and the remains of
/// killed writers. Later steps (of a run that was resumed from before them) are not touched. Each folder loses its name
/// before its content, so that an interrupted deletion never leaves half a checkpoint. Throws file_error.
void delete_old_checkpoints(const std::filesystem::path& root, std::int64_t newest, std::int64_t keep);

/// Saves step `step`: write(folder) fills a temporary folder, which gets its manifest (step_manifest.hpp) and then
/// becomes <root>/global_step_{step}; the tracker
/// follows; old checkpoints are deleted last (trainer.max_actor_ckpt_to_keep). A failure at any point, including
/// an exception of `write`, leaves the older checkpoints and the tracker as they were.
template <class Write>
void save_step(const std::filesystem::path& root, std::int64_t step, std::int64_t keep, Write&& write) {
  atomic_folder folder(step_folder(root, step));
  write(folder.path());
  write_step_manifest(folder.path(), step);
  folder.commit();
  write_file_atomically(root / tracker_name, std::to_string(step));
  delete_old_checkpoints(root, step, keep);
}

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
    write_step_manifest(folder->path(), step);
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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE std::optional<std::int64_t> parse_step(std::string_view text) {
  std::int64_t step = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), step);
  if (code != std::errc() || end != text.data() + text.size() || step < 0 || text.empty()) return std::nullopt;
  return step;
}

RLCORE_INLINE std::optional<std::int64_t> read_tracker(const std::filesystem::path& root) {
  const std::filesystem::path tracker = root / tracker_name;
  if (!std::filesystem::exists(tracker)) return std::nullopt;
  std::string text = data::read_file(tracker);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  if (const auto step = parse_step(text)) return step;
  throw format_error(tracker.string() + ": '" + data::printable(text) + "'; expected the number of a step");
}

RLCORE_INLINE resume_point find_latest(const std::filesystem::path& root) {
  const auto step = read_tracker(root);
  if (!step) return {};
  const std::filesystem::path folder = step_folder(root, *step);
  if (std::filesystem::is_directory(folder)) return {*step, folder, ""};
  return {0,
          {},
          (root / tracker_name).string() + " names step " + std::to_string(*step) + ", but " + folder.string() +
              " does not exist: starting from scratch"};
}

RLCORE_INLINE resume_point find_resume(const std::string& mode, const std::string& resume_from_path,
                                       const std::filesystem::path& root) {
  if (mode == "disable") return {};
  if (mode == "auto") return find_latest(root);
  if (mode != "resume_path")
    throw config_error("trainer.resume_mode is '" + data::printable(mode) + "'; expected auto, disable or resume_path");
  const auto step = step_of(resume_from_path);
  if (!step)
    throw config_error("trainer.resume_from_path is '" + data::printable(resume_from_path) +
                       "'; expected a folder named global_step_N");
  if (!std::filesystem::is_directory(resume_from_path))
    throw config_error("trainer.resume_from_path: no folder " + data::printable(resume_from_path));
  return {*step, resume_from_path, ""};
}

RLCORE_INLINE void delete_old_checkpoints(const std::filesystem::path& root, std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> steps;
  std::vector<std::filesystem::path> doomed;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    const auto step = entry.is_directory() ? step_of(entry.path()) : std::nullopt;
    if (step && *step <= newest) steps.push_back(*step);
    const std::string name = entry.path().filename().string();
    if ((name.starts_with(step_prefix) || name.starts_with(tracker_name)) && is_abandoned_temporary(entry.path()))
      doomed.push_back(entry.path());
  }
  std::sort(steps.begin(), steps.end());
  const auto count = keep <= 0 ? steps.size() : std::min(steps.size(), static_cast<std::size_t>(keep));
  for (std::size_t i = 0; i + count < steps.size(); ++i) doomed.push_back(step_folder(root, steps[i]));
  for (std::filesystem::path& folder : doomed) {
    std::error_code code;
    const std::filesystem::path nameless = temporary_sibling(folder);
    if (step_of(folder)) std::filesystem::rename(folder, nameless, code);
    if (!code) std::filesystem::remove_all(step_of(folder) ? nameless : folder, code);
    if (code) data::throw_file_error(folder, "delete the old checkpoint", code.value());
  }
}

}  // namespace checkpoint
RLCORE_END
#endif
