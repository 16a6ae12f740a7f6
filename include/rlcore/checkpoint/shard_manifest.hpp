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

/// Most pieces of one tensor: each is compared with all others.
inline constexpr std::size_t most_pieces = std::size_t{1} << 14;

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

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE nlohmann::json to_json(const shard_files& files) {
  nlohmann::json pieces = nlohmann::json::array(), kinds = nlohmann::json::object();
  for (const shard_piece& p : files.pieces) pieces.push_back({p.tensor, p.shape, p.start, p.extent, p.first, p.last});
  for (const auto& [kind, file] : files.kinds) {
    std::string sums;
    for (const std::uint32_t crc : file.crc32) {
      char text[9];
      std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(crc));
      sums += text;
    }
    kinds[kind] = {{"file", file.name}, {"bytes", file.bytes}, {"crc32", sums}};
  }
  return {{"pieces", pieces}, {"kinds", kinds}};
}

RLCORE_INLINE shard_manifest::shard_manifest(const std::filesystem::path& folder) : folder_(folder) {
  const json_file file(path());
  if (file.string("format") != format) file.fail("format", "\"" + std::string(format) + "\"");
  if (file.integer("block") != static_cast<std::int64_t>(shard_block)) file.fail("block", std::to_string(shard_block));
  if (file.string("dtype") != "F32") file.fail("dtype", "\"F32\"");
  try {
    for (const auto& [name, shape] : file.root().at("tensors").get_ref<const nlohmann::json::object_t&>())
      shapes_[name] = text::get_exactly<std::vector<std::int64_t>>(shape);
    for (const nlohmann::json& rank : file.root().at("ranks")) ranks_.push_back(parse(rank));
  } catch (const nlohmann::json::exception&) {
    throw format_error(path().string() + ": damaged: not what the format says");
  }
  check();
}

RLCORE_INLINE void shard_manifest::write(const std::filesystem::path& folder,
                                         const std::map<std::string, std::vector<std::int64_t>>& shapes,
                                         const nlohmann::json& ranks) {
  const nlohmann::ordered_json root{
      {"format", format}, {"block", shard_block}, {"dtype", "F32"}, {"tensors", shapes}, {"ranks", ranks}};
  write_file_atomically(folder / manifest_name, text::json_text(root) + "\n");
}

RLCORE_INLINE shard_files shard_manifest::parse(const nlohmann::json& json) const {
  shard_files files;
  std::size_t blocks = 0;
  for (const nlohmann::json& p : json.at("pieces")) {
    shard_piece piece;
    p.at(0).get_to(piece.tensor);
    piece.shape = text::get_exactly<std::vector<std::int64_t>>(p.at(1));
    piece.start = text::get_exactly<std::vector<std::int64_t>>(p.at(2));
    piece.extent = text::get_exactly<std::vector<std::int64_t>>(p.at(3));
    piece.first = text::get_exactly<std::size_t>(p.at(4));
    piece.last = text::get_exactly<std::size_t>(p.at(5));
    if (const std::string fault = parallel::fault_of(piece); !fault.empty())
      fail("damaged: a piece of tensor '" + data::printable(piece.tensor) + "' has " + fault);
    blocks += blocks_of(piece.size());
    files.pieces.push_back(std::move(piece));
  }
  for (const auto& [kind, entry] : json.at("kinds").items()) {
    shard_file& file = files.kinds[kind];
    entry.at("file").get_to(file.name);
    file.bytes = text::get_exactly<decltype(file.bytes)>(entry.at("bytes"));
    const auto sums = entry.at("crc32").get<std::string>();
    if (file.name.empty() || file.name.find('/') != std::string::npos)
      fail("file '" + data::printable(file.name) + "'; expected a name in the same folder");
    if (sums.size() != 8 * blocks || sums.find_first_not_of("0123456789abcdef") != std::string::npos)
      fail("damaged: the checksums of " + data::printable(file.name) + " are not 8 digits for each of " +
           std::to_string(blocks) + " blocks");
    for (std::size_t i = 0; i < sums.size(); i += 8)
      file.crc32.push_back(static_cast<std::uint32_t>(std::stoul(sums.substr(i, 8), nullptr, 16)));
  }
  return files;
}

RLCORE_INLINE void shard_manifest::check() {
  parallel::piece_layout layout;
  std::map<std::string_view, std::size_t> counts;
  for (const shard_files& r : ranks_) {
    layout.push_back(r.pieces);
    for (const shard_piece& p : r.pieces) {
      if (const auto at = shapes_.find(p.tensor); at == shapes_.end() || at->second != p.shape)
        fail("damaged: a piece of tensor '" + data::printable(p.tensor) + "' of shape " + shape_text(p.shape) +
             ", which is not in the list of tensors");
      if (++counts[p.tensor] > most_pieces)
        fail("tensor '" + data::printable(p.tensor) + "' has more than " + std::to_string(most_pieces) + " pieces");
    }
  }
  try {
    held_ = parallel::held_pieces(layout);
  } catch (const std::invalid_argument& e) {
    fail(std::string("damaged: ") + e.what());
  }
  for (const auto& [name, pieces] : held_)
    for (const parallel::held_piece& h : pieces)
      if (h.holders.size() > 1)
        fail("damaged: the pieces of ranks " + std::to_string(h.holders[0].rank) + " and " +
             std::to_string(h.holders[1].rank) + " overlap: " + text_of(h.piece));
  if (const std::string missing = parallel::missing_of(held_, shapes_); !missing.empty())
    fail("incomplete: " + missing);
}

}  // namespace checkpoint
RLCORE_END
#endif
