// The manifest of a step's checkpoint: which files it has, of which step, and a checksum of each.
//
//   checkpoint.json   {"format", "step", "block_bytes", "files": {"actor/optim.safetensors": {"bytes", "crc32": []}}}
//
// The files of shards/ have their checksums in shards/manifest.json, whose own checksum is here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Writes <folder>/checkpoint.json for the files below `folder`, after all of them. Throws file_error.
void write_step_manifest(const std::filesystem::path& folder, std::int64_t step);

/// Compares the files below `folder` with its manifest. Throws format_error naming the first file that is missing, has
/// another size or other bytes, or that a run would read though the manifest does not list it, and for the manifest of
/// another step. critic/ may be missing as a whole. Returns a sentence if there is no manifest, as earlier versions
/// wrote none; otherwise nothing.
std::string check_step_manifest(const std::filesystem::path& folder, std::int64_t step);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/crc32.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/exec/threads.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint::detail {

inline constexpr std::string_view step_manifest_name = "checkpoint.json", step_manifest_format = "rlcore checkpoint 1";
inline constexpr std::uint64_t manifest_block = std::uint64_t{16} << 20;

/// The files below `folder` but its manifest, as paths from there with slashes, sorted.
inline std::vector<std::string> files_below(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::string name = entry.path().lexically_relative(folder).generic_string();
    if (name != step_manifest_name) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

/// Whether shards/manifest.json has its checksums.
inline bool is_shard(const std::string& name) {
  const std::filesystem::path path(name);
  return path.extension() == ".safetensors" && path.parent_path().filename() == "shards";
}

/// Whether a name of the list is that of a file below the folder, as files_below() writes it.
inline bool is_below(const std::string& name) {
  const std::filesystem::path path(name);
  return !name.empty() && name.find('\0') == name.npos && path.is_relative() &&
         std::ranges::none_of(path, [](const std::filesystem::path& part) { return part == ".."; });
}

/// The checksums of the file's blocks, by all cores.
inline std::vector<std::string> checksums(const std::filesystem::path& path, std::uint64_t bytes, const threads& pool) {
  const data::descriptor file(path, O_RDONLY, "open");
  std::vector<std::string> sums(static_cast<std::size_t>((bytes + manifest_block - 1) / manifest_block));
  pool.for_each(sums.size(), [&](std::size_t i) {
    std::vector<std::byte> piece(std::size_t{1} << 18);
    const std::uint64_t end = std::min(bytes, (i + 1) * manifest_block);
    std::uint32_t sum = 0;
    for (std::uint64_t at = i * manifest_block; at < end;) {
      const ssize_t n =
          ::pread(file.number(), piece.data(),
                  static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at)), static_cast<off_t>(at));
      if (n <= 0) data::throw_file_error(path, "read", n < 0 ? errno : EIO);
      sum = crc32(std::span(piece).first(static_cast<std::size_t>(n)), sum);
      at += static_cast<std::uint64_t>(n);
    }
    char text[16];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(sum));
    sums[i] = text;
  });
  return sums;
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE void write_step_manifest(const std::filesystem::path& folder, std::int64_t step) {
  const threads pool;
  nlohmann::ordered_json files = nlohmann::ordered_json::object();
  for (const std::string& name : detail::files_below(folder)) {
    const std::uint64_t bytes = std::filesystem::file_size(folder / name);
    files[name]["bytes"] = bytes;
    if (!detail::is_shard(name)) files[name]["crc32"] = detail::checksums(folder / name, bytes, pool);
  }
  const nlohmann::ordered_json manifest{{"format", detail::step_manifest_format},
                                        {"step", step},
                                        {"block_bytes", detail::manifest_block},
                                        {"files", std::move(files)}};
  write_file_atomically(folder / detail::step_manifest_name, text::json_text(manifest, 1) + "\n");
}

RLCORE_INLINE std::string check_step_manifest(const std::filesystem::path& folder, std::int64_t step) {
  const std::filesystem::path path = folder / detail::step_manifest_name;
  if (!std::filesystem::exists(path))
    return folder.string() + " has no checkpoint.json: damage to its files would not be noticed";
  const json_file manifest(path);
  const auto fail = [&](const std::string& problem) {
    throw format_error(folder.string() + ": the checkpoint is damaged: " + problem +
                       "; resume from another one with trainer.resume_mode=resume_path and trainer.resume_from_path, "
                       "or begin anew with trainer.resume_mode=disable");
  };
  if (manifest.string("format") != detail::step_manifest_format)
    fail("checkpoint.json has the format '" + data::printable(manifest.string("format"), 40) + "', expected '" +
         std::string(detail::step_manifest_format) + "'");
  if (const std::int64_t of = manifest.integer("step"); of != step)
    fail("its manifest is that of step " + std::to_string(of) + ", expected " + std::to_string(step));
  if (manifest.integer("block_bytes") != static_cast<std::int64_t>(detail::manifest_block))
    fail("checkpoint.json has blocks of " + std::to_string(manifest.integer("block_bytes")) + " bytes");
  if (!manifest.has("files") || !manifest.root()["files"].is_object()) fail("checkpoint.json has no list of files");
  const nlohmann::json& listed = manifest.root()["files"];
  const threads pool;
  std::set<std::string> names;
  for (const auto& [name, file] : listed.items()) {
    names.insert(name);
    if (!detail::is_below(name)) fail("checkpoint.json lists '" + data::printable(name) + "', which is no file's name");
    if (name.starts_with("critic/") && !std::filesystem::exists(folder / "critic")) continue;
    std::error_code unnamable;  // such as a name that is too long
    if (!std::filesystem::is_regular_file(folder / name, unnamable)) fail(data::printable(name) + " is missing");
    const std::uint64_t bytes = std::filesystem::file_size(folder / name);
    if (!file.is_object() || !file.contains("bytes") || file["bytes"] != bytes)
      fail(data::printable(name) + " has " + std::to_string(bytes) + " bytes, its manifest says " +
           (file.is_object() && file.contains("bytes") ? data::printable(text::json_text(file["bytes"])) : "nothing"));
    if (detail::is_shard(name)) continue;
    if (!file.contains("crc32") || file["crc32"] != nlohmann::json(detail::checksums(folder / name, bytes, pool)))
      fail(data::printable(name) + " has other bytes than were written");
  }
  for (const std::string& name : detail::files_below(folder))
    if (!names.contains(name) &&
        (name.ends_with(".safetensors") || name.ends_with(".json") || name.ends_with(".jsonl")))
      fail(data::printable(name) + " is not a file of this checkpoint: its manifest does not list it");
  return {};
}

}  // namespace checkpoint
RLCORE_END
#endif
