// Manifest of a sharded checkpoint: every rank has its own files, and the manifest lists all pieces.
//
//   shards/manifest.json                          written last: without it there are no shards
//   shards/{kind}_rank_{r}.safetensors            kind: weights, exp_avg, exp_avg_sq; floats, a piece after the other
//
// JSON is slow to compile: with RLCORE_COMPILED it is that of src/checkpoint.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"

RLCORE_BEGIN
namespace checkpoint {

using parallel::shard_piece;

inline constexpr std::string_view shard_folder_name = "shards", manifest_name = "manifest.json";
/// Elements under one checksum.
inline constexpr std::size_t shard_block = std::size_t{1} << 18;

/// The number of checksums of a piece with this many elements.
constexpr std::size_t blocks_of(std::size_t elements) noexcept { return (elements + shard_block - 1) / shard_block; }

/// The files of one rank.
struct shard_file {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<std::uint32_t> crc32;  ///< of every block of every piece
};
/// The output of one rank: its pieces and the files that hold them.
struct shard_files {
  std::vector<shard_piece> pieces;          ///< the same in all kinds
  std::map<std::string, shard_file> kinds;  ///< weights, exp_avg, ...
};

/// The name of a rank's piece number `i` in its files. Pieces are stored as lists of elements.
inline std::string stored_name(const shard_files& files, std::size_t i) {
  return files.pieces[i].tensor + "#" + std::to_string(i);
}

/// The files of one rank as the manifest lists them; a checksum is eight hexadecimal digits.
nlohmann::json to_json(const shard_files& files);

/// A manifest lists the files of every rank of the run that saved. Any number of ranks may read it.
class shard_manifest {
 public:
  static constexpr const char* format = "rlcore shards 1";

  /// Reads <folder>/manifest.json. Throws file_error, or format_error for a bad manifest and for pieces that are
  /// impossible, overlap or leave elements out.
  explicit shard_manifest(const std::filesystem::path& folder);

  /// Writes the manifest atomically: `shapes` of all tensors, and `ranks`, a list of to_json(). Throws file_error.
  static void write(const std::filesystem::path& folder, const std::map<std::string, std::vector<std::int64_t>>& shapes,
                    const nlohmann::json& ranks);

  std::filesystem::path path() const { return folder_ / manifest_name; }
  const std::filesystem::path& folder() const noexcept { return folder_; }
  const std::vector<shard_files>& ranks() const noexcept { return ranks_; }
  const std::map<std::string, std::vector<std::int64_t>>& shapes() const noexcept { return shapes_; }
  /// Pieces in ascending order; each has one holder.
  const std::map<std::string, std::vector<parallel::held_piece>>& pieces() const noexcept { return held_; }

 private:
  [[noreturn]] void fail(const std::string& message) const { throw format_error(path().string() + ": " + message); }

  shard_files parse(const nlohmann::json& json) const;
  void check();

  std::filesystem::path folder_;
  std::vector<shard_files> ranks_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
  std::map<std::string, std::vector<parallel::held_piece>> held_;
};

/// The folder of a checkpoint's shards: `folder`/shards, or beside a folder huggingface/; empty if it has none.
inline std::filesystem::path find_shards(const std::filesystem::path& folder) {
  std::error_code ignored;
  const std::filesystem::path plain = folder.has_filename() ? folder : folder.parent_path();
  std::vector<std::filesystem::path> places{plain, plain / shard_folder_name};
  if (plain.filename() == "huggingface") places.push_back(plain.parent_path() / shard_folder_name);
  for (const std::filesystem::path& place : places)
    if (std::filesystem::is_regular_file(place / manifest_name, ignored)) return place;
  return {};
}

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/checkpoint/manifest_json.hpp"
#endif
