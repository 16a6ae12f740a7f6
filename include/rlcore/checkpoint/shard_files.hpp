// Sharded checkpoints: all ranks save their pieces together; any piece of any tensor can be read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/crc32.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_manifest.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// One kind of the tensors of a folder of shards. Reads only the required files and blocks, and verifies the checksum
/// of every block it reads. Keeps a few blocks and files open; for one thread.
class shard_reader {
 public:
  /// Throws what shard_manifest throws, and format_error when `kind` was not saved.
  explicit shard_reader(const std::filesystem::path& folder, std::string kind = "weights");

  const shard_manifest& manifest() const noexcept { return manifest_; }
  const std::map<std::string, std::vector<std::int64_t>>& shapes() const noexcept { return manifest_.shapes(); }
  /// Bytes taken from files so far.
  std::uint64_t bytes_read() const noexcept { return bytes_read_; }

  /// Fills `values` with the piece. Throws format_error naming the tensor when there is none of its name and shape,
  /// file_error or format_error naming the file when one is missing or damaged.
  void read(const shard_piece& wanted, std::span<float> values);

 private:
  struct cached_block {
    std::size_t rank, piece, number;
    std::vector<float> values;
  };
  struct open_file {
    std::size_t rank;
    std::unique_ptr<safetensors_reader> reader;
  };
  static constexpr std::size_t blocks_kept = 16, files_kept = 32;

  /// Elements `from` on of one stored piece.
  void copy(std::size_t rank, std::size_t piece, std::size_t from, std::span<float> values);
  const std::vector<float>& block(std::size_t rank, std::size_t piece, std::size_t number, std::size_t length);
  void load(std::size_t rank, std::size_t piece, std::size_t number, std::span<float> values);
  const safetensors_reader& file(std::size_t rank);

  shard_manifest manifest_;
  std::string kind_;
  std::vector<std::vector<std::size_t>> first_block_;  // of each rank's pieces among its checksums
  std::list<cached_block> blocks_;                     // most recently used first
  std::list<open_file> files_;
  std::uint64_t bytes_read_ = 0;
};

/// Writes the pieces of all ranks into `folder`. Each rank writes one file per kind, with at most one block in memory;
/// elements that several ranks hold are written once. Rank 0 adds the manifest when all have finished. All ranks call
/// it with the same folder and kinds. `local` holds this rank's pieces, the same for all kinds; read(kind number, piece
/// number, first, span<float>) gets their elements. Throws file_error, and std::invalid_argument if the ranks together
/// do not hold whole tensors. Without the manifest the folder is no checkpoint, so a rank that fails leaves none.
template <parallel::communicator C, class Read>
void write_shards(C& c, const std::filesystem::path& folder, std::span<const shard_piece> local,
                  const std::vector<std::string>& kinds, Read&& read) {
  const auto self = static_cast<std::size_t>(c.rank());
  const parallel::piece_layout layout = parallel::gather_pieces(c, local);
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const auto& pieces : layout)
    for (const shard_piece& p : pieces) shapes.emplace(p.tensor, p.shape);
  const auto held = parallel::held_pieces(layout);
  if (const std::string missing = parallel::missing_of(held, shapes); !missing.empty())
    throw std::invalid_argument("rlcore: write_shards: " + missing + " in all ranks");
  if (c.rank() == 0) std::filesystem::create_directories(folder);
  c.barrier();
  if (!std::filesystem::is_directory(folder))
    throw file_error(folder.string() + ": rank " + std::to_string(self) +
                     " does not see the folder that rank 0 made; expected a file system that all hosts share");

  const std::vector<parallel::assigned_piece> dealt = parallel::assign_pieces(held, self);
  shard_files files;
  std::vector<tensor_info> announced;
  for (const parallel::assigned_piece& d : dealt) files.pieces.push_back(d.piece);
  for (std::size_t i = 0; i < dealt.size(); ++i)
    announced.push_back(
        {stored_name(files, i), stored_type::f32, {static_cast<std::int64_t>(dealt[i].piece.size())}, 0, 0});
  std::vector<float> values;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    shard_file& file = files.kinds[kinds[k]];
    file.name = kinds[k] + "_rank_" + std::to_string(self) + ".safetensors";
    safetensors_writer writer(folder / file.name, announced, {});
    for (const parallel::assigned_piece& d : dealt)
      for (std::size_t first = 0; first < d.piece.size(); first += shard_block) {
        values.resize(std::min(shard_block, d.piece.size() - first));
        read(k, d.index, d.offset + first, std::span<float>(values));
        file.crc32.push_back(crc32(std::as_bytes(std::span<const float>(values))));
        writer.append(values);
      }
    writer.finish();
    file.bytes = std::filesystem::file_size(folder / file.name);
  }

  const std::vector<std::string> texts = parallel::gather_texts(c, text::json_text(to_json(files)));
  if (c.rank() != 0) return c.barrier();
  nlohmann::json ranks = nlohmann::json::array();
  for (const std::string& files_of_rank : texts) ranks.push_back(text::try_parse_json(files_of_rank));
  for (std::size_t r = 0; r < ranks.size(); ++r)
    for (const nlohmann::json& file : ranks[r]["kinds"]) {
      const std::filesystem::path path = folder / file["file"].get<std::string>();
      std::error_code code;
      if (std::filesystem::file_size(path, code) != file["bytes"] || code)
        throw file_error(path.string() + ": rank " + std::to_string(r) +
                         " has written it, but rank 0 does not see all of "
                         "it; expected a file system that all hosts share");
    }
  shard_manifest::write(folder, shapes, ranks);
  c.barrier();
}

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE shard_reader::shard_reader(const std::filesystem::path& folder, std::string kind)
    : manifest_(folder), kind_(std::move(kind)) {
  for (std::size_t r = 0; r < manifest_.ranks().size(); ++r) {
    const shard_files& files = manifest_.ranks()[r];
    if (!files.kinds.contains(kind_))
      throw format_error(manifest_.path().string() + ": rank " + std::to_string(r) + " has saved no " + kind_);
    std::vector<std::size_t>& begins = first_block_.emplace_back();
    std::size_t blocks = 0;
    for (const shard_piece& p : files.pieces) {
      begins.push_back(blocks);
      blocks += blocks_of(p.size());
    }
  }
}

RLCORE_INLINE void shard_reader::read(const shard_piece& wanted, std::span<float> values) {
  parallel::check_piece(wanted);
  if (wanted.size() != values.size())
    throw std::invalid_argument("rlcore: " + std::to_string(values.size()) + " values for " + text_of(wanted));
  const auto shape = shapes().find(wanted.tensor);
  if (shape == shapes().end()) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : shapes()) names.push_back(name);
    throw format_error(manifest_.path().string() + ": no tensor '" + data::printable(wanted.tensor) + "'" +
                       did_you_mean(wanted.tensor, names));
  }
  if (shape->second != wanted.shape)
    throw format_error(manifest_.path().string() + ": tensor '" + data::printable(wanted.tensor) + "' has shape " +
                       shape_text(shape->second) + "; expected " + shape_text(wanted.shape));
  if (wanted.size() == 0) return;
  const parallel::piece_positions positions(wanted);
  const std::uint64_t begin = positions.at(wanted.first).global, end = positions.at(wanted.last - 1).global + 1;
  for (const parallel::held_piece& h : manifest_.pieces().at(wanted.tensor)) {
    if (h.begin >= end) break;
    if (h.end <= begin) continue;
    parallel::for_each_overlap(h.piece, wanted, [&](std::size_t from, std::size_t to, std::size_t count) {
      copy(h.holders[0].rank, h.holders[0].piece, from, values.subspan(to, count));
    });
  }
}

RLCORE_INLINE void shard_reader::copy(std::size_t rank, std::size_t piece, std::size_t from, std::span<float> values) {
  const std::size_t size = manifest_.ranks()[rank].pieces[piece].size();
  while (!values.empty()) {
    const std::size_t number = from / shard_block, begin = number * shard_block,
                      length = std::min(shard_block, size - begin),
                      count = std::min(values.size(), begin + length - from);
    if (count == length) {
      load(rank, piece, number, values.first(count));
    } else {
      const std::vector<float>& whole = block(rank, piece, number, length);
      std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(from - begin), count, values.begin());
    }
    values = values.subspan(count);
    from += count;
  }
}

RLCORE_INLINE const std::vector<float>& shard_reader::block(std::size_t rank, std::size_t piece, std::size_t number,
                                                            std::size_t length) {
  for (auto at = blocks_.begin(); at != blocks_.end(); ++at)
    if (at->rank == rank && at->piece == piece && at->number == number) {
      blocks_.splice(blocks_.begin(), blocks_, at);
      return at->values;
    }
  if (blocks_.size() == blocks_kept)
    blocks_.splice(blocks_.begin(), blocks_, std::prev(blocks_.end()));
  else
    blocks_.emplace_front();
  cached_block& b = blocks_.front();
  b.rank = manifest_.ranks().size();  // no rank: the block stays invalid if reading fails
  b.values.resize(length);
  load(rank, piece, number, b.values);
  b.rank = rank, b.piece = piece, b.number = number;
  return b.values;
}

RLCORE_INLINE void shard_reader::load(std::size_t rank, std::size_t piece, std::size_t number,
                                      std::span<float> values) {
  const shard_files& files = manifest_.ranks()[rank];
  const std::string name = stored_name(files, piece);
  const safetensors_reader& reader = file(rank);
  const tensor_info& stored = reader.info(name);
  if (stored.dtype != stored_type::f32 || stored.size() != files.pieces[piece].size())
    throw format_error(reader.path().string() + ": tensor '" + data::printable(name) + "' is " +
                       std::string(name_of(stored.dtype)) + " " + shape_text(stored.shape) +
                       "; the manifest says F32 [" + std::to_string(files.pieces[piece].size()) + "]");
  reader.read_bytes(name, std::as_writable_bytes(values), number * shard_block * sizeof(float));
  bytes_read_ += values.size_bytes();
  const std::uint32_t expected = files.kinds.at(kind_).crc32[first_block_[rank][piece] + number],
                      found = crc32(std::as_bytes(values));
  if (found == expected) return;
  char text[64];
  std::snprintf(text, sizeof text, "CRC-32 %08x, the manifest says %08x", static_cast<unsigned>(found),
                static_cast<unsigned>(expected));
  throw format_error(reader.path().string() + ": damaged: block " + std::to_string(number) + " of tensor '" +
                     data::printable(name) + "' has " + text);
}

RLCORE_INLINE const safetensors_reader& shard_reader::file(std::size_t rank) {
  for (auto at = files_.begin(); at != files_.end(); ++at)
    if (at->rank == rank) {
      files_.splice(files_.begin(), files_, at);
      return *at->reader;
    }
  const shard_file& saved = manifest_.ranks()[rank].kinds.at(kind_);
  const std::filesystem::path path = manifest_.folder() / saved.name;
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code)
    throw file_error(path.string() + ": missing; " + std::string(manifest_name) + " names it as the " + kind_ +
                     " of rank " + std::to_string(rank) + " of " + std::to_string(manifest_.ranks().size()));
  if (size != saved.bytes)
    throw format_error(path.string() + ": has " + std::to_string(size) + " bytes; " + std::string(manifest_name) +
                       " says " + std::to_string(saved.bytes));
  auto reader = std::make_unique<safetensors_reader>(path);
  if (files_.size() == files_kept) files_.pop_back();
  files_.push_front({rank, std::move(reader)});
  return *files_.front().reader;
}

}  // namespace checkpoint
RLCORE_END
#endif
