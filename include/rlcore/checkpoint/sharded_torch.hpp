// verl's FSDP checkpoint: model_world_size_{W}_rank_{r}.pt, each with a piece of every tensor. Reads whole tensors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/torch_file.hpp"
#include "rlcore/checkpoint/weight_source.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// "<folder>/model_world_size_{W}_rank_{r}.pt"
inline std::filesystem::path shard_path(const std::filesystem::path& folder, std::int64_t world_size,
                                        std::int64_t rank) {
  return folder / ("model_world_size_" + std::to_string(world_size) + "_rank_" + std::to_string(rank) + ".pt");
}

/// W of fsdp_config.json or, in older folders, of the file names; empty if the folder has no such files. Throws
/// format_error if files of several W lie together and fsdp_config.json does not choose one.
std::optional<std::int64_t> shard_world_size(const std::filesystem::path& folder);

/// All ranks' files as one source. Shard(dim) pieces follow each other along dim; the last ones may be smaller or
/// empty. Replicated pieces come from rank 0. Of a (ddp, fsdp) mesh it reads the first replica's files. Elements come
/// straight from the files, so no tensor is ever in memory. It checks the CRC-32 of storages that are read to the end.
class sharded_torch final : public weight_source {
 public:
  /// Throws file_error or format_error, naming the file and the tensor.
  explicit sharded_torch(const std::filesystem::path& folder, std::int64_t world_size);

  std::int64_t world_size() const noexcept { return world_size_; }
  /// The number of files that hold one copy of the model.
  std::size_t shards() const noexcept { return files_.size(); }

  /// Collects the elements from the ranks' pieces. Throws format_error for copies that differ between ranks, and once a
  /// storage has been read in order whose bytes do not fit its checksum.
  void read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) override;

 private:
  struct tensor {
    std::string name;
    std::vector<torch_tensor> pieces;  // one per rank
  };
  struct checked {
    std::uint64_t next = 0;  // bytes of the storage read so far, without a gap
    std::uint32_t crc = 0;
  };

  static std::uint64_t extent(const tensor& t, std::size_t rank, std::size_t dim) {
    const torch_tensor& p = t.pieces[rank];
    return p.size() == 0 ? 0 : static_cast<std::uint64_t>(p.shape[dim]);
  }
  /// True if the ranks read so far hold every element. Without any sharded tensor all ranks are read and compared.
  bool complete() const;
  void add_rank(std::int64_t rank);
  [[noreturn]] void fail(const tensor& t, std::size_t rank, const std::string& message) const {
    files_[rank]->archive().fail("tensor '" + data::printable(t.name) + "' " + message);
  }
  void check_pieces(const tensor& t) const;
  /// Reads elements of one piece in row-major order, whatever its strides.
  void read_piece(const tensor& t, std::size_t rank, std::uint64_t first, std::span<std::byte> bytes);
  void read_storage(std::size_t rank, const std::string& name, std::uint64_t position, std::span<std::byte> bytes);
  /// A tensor that is not distributed must be the same on every rank.
  void check_copies(const tensor& t, std::uint64_t first, std::span<const std::byte> bytes);

  std::filesystem::path folder_;
  std::int64_t world_size_;
  std::vector<std::unique_ptr<torch_file>> files_;
  std::vector<tensor> tensors_;                           // sorted by name, as weights_
  std::vector<std::map<std::string, checked>> verified_;  // per rank and storage
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE std::optional<std::int64_t> shard_world_size(const std::filesystem::path& folder) {
  constexpr std::string_view prefix = "model_world_size_";
  std::optional<std::int64_t> size;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::size_t rank = name.find("_rank_");
    if (!name.starts_with(prefix) || !name.ends_with(".pt") || rank == std::string::npos || rank <= prefix.size())
      continue;
    const std::string digits = name.substr(prefix.size(), rank - prefix.size());
    if (digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::int64_t found = std::stoll(digits);
    if (std::filesystem::exists(folder / "fsdp_config.json"))
      return json_file(folder / "fsdp_config.json").integer("world_size", 1, 1 << 20);
    if (size && *size != found)
      throw format_error(folder.string() + ": has shards of " + std::to_string(*size) + " and of " +
                         std::to_string(found) + " ranks, and no fsdp_config.json that says which are meant");
    size = found;
  }
  return size;
}

RLCORE_INLINE sharded_torch::sharded_torch(const std::filesystem::path& folder, std::int64_t world_size)
    : folder_(folder), world_size_(world_size) {
  for (std::int64_t rank = 0; rank < world_size && (rank == 0 || !complete()); ++rank) add_rank(rank);
  for (const tensor& t : tensors_) {
    check_pieces(t);
    weights_.push_back({t.name, t.pieces[0].dtype, t.pieces[0].whole_shape});
  }
}

RLCORE_INLINE void sharded_torch::read_bytes(const weight& w, std::uint64_t first, std::span<std::byte> bytes) {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), w.name,
                                   [](const tensor& t, const std::string& n) { return t.name < n; });
  const tensor& t = *at;
  const std::size_t element = bytes_of(w.dtype);
  if (!t.pieces[0].shard_dim) {
    read_piece(t, 0, first, bytes);
    if (!t.pieces[0].distributed) check_copies(t, first, bytes);
    return;
  }
  const std::size_t dim = *t.pieces[0].shard_dim;
  std::uint64_t inner = 1;  // elements of one step along dim
  for (std::size_t d = dim + 1; d < w.shape.size(); ++d) inner *= static_cast<std::uint64_t>(w.shape[d]);
  const std::uint64_t row = inner * static_cast<std::uint64_t>(w.shape[dim]);
  while (!bytes.empty()) {
    const std::uint64_t outer = first / row;
    std::uint64_t begin = 0, in_row = first % row;
    std::size_t rank = 0;
    for (; in_row >= begin + extent(t, rank, dim) * inner; ++rank) begin += extent(t, rank, dim) * inner;
    const std::uint64_t of_piece = extent(t, rank, dim) * inner;
    const std::uint64_t count = std::min<std::uint64_t>(bytes.size() / element, begin + of_piece - in_row);
    read_piece(t, rank, outer * of_piece + in_row - begin, bytes.first(static_cast<std::size_t>(count * element)));
    bytes = bytes.subspan(static_cast<std::size_t>(count * element));
    first += count;
  }
}

RLCORE_INLINE bool sharded_torch::complete() const {
  bool any = false;
  for (const tensor& t : tensors_) {
    if (!t.pieces[0].shard_dim) continue;
    any = true;
    std::uint64_t sum = 0;
    for (std::size_t r = 0; r < t.pieces.size(); ++r) sum += extent(t, r, *t.pieces[0].shard_dim);
    if (sum < static_cast<std::uint64_t>(t.pieces[0].whole_shape[*t.pieces[0].shard_dim])) return false;
  }
  return any;
}

RLCORE_INLINE void sharded_torch::add_rank(std::int64_t rank) {
  const std::filesystem::path path = shard_path(folder_, world_size_, rank);
  if (!std::filesystem::exists(path))
    throw file_error(path.string() + ": missing; a checkpoint of " + std::to_string(world_size_) +
                     " ranks has a file for each");
  files_.push_back(std::make_unique<torch_file>(path));
  const std::vector<torch_tensor>& found = files_.back()->tensors();
  if (rank == 0)
    for (const torch_tensor& t : found) tensors_.push_back({t.name, {}});
  for (std::size_t i = 0; i < std::max(found.size(), tensors_.size()); ++i)
    if (i >= found.size() || i >= tensors_.size() || found[i].name != tensors_[i].name) {
      const bool lacks = i >= found.size() || (i < tensors_.size() && tensors_[i].name < found[i].name);
      throw format_error(path.string() + ": " + (lacks ? "lacks" : "has") + " tensor '" +
                         data::printable(lacks ? tensors_[i].name : found[i].name) + "', which rank 0 has" +
                         (lacks ? "" : " not"));
    }
  for (std::size_t i = 0; i < found.size(); ++i) tensors_[i].pieces.push_back(found[i]);
  verified_.emplace_back();
}

RLCORE_INLINE void sharded_torch::check_pieces(const tensor& t) const {
  const torch_tensor& one = t.pieces[0];
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < t.pieces.size(); ++r) {
    const torch_tensor& p = t.pieces[r];
    if (p.dtype != one.dtype || p.distributed != one.distributed || p.shard_dim != one.shard_dim ||
        p.whole_shape != one.whole_shape)
      fail(t, r, "differs from rank 0's in type, shape or placement");
    if (p.shard_dim && p.size() != 0) {
      std::vector<std::int64_t> expected = one.whole_shape;
      if (p.shape.size() == expected.size()) expected[*p.shard_dim] = p.shape[*p.shard_dim];
      if (p.shape != expected)
        fail(t, r, "has shape " + shape_text(p.shape) + ", no piece of " + shape_text(one.whole_shape));
      sum += extent(t, r, *p.shard_dim);
    } else if (!p.shard_dim && p.shape != one.whole_shape) {
      fail(t, r, "has shape " + shape_text(p.shape) + "; expected " + shape_text(one.whole_shape));
    }
  }
  const bool empty = std::find(one.whole_shape.begin(), one.whole_shape.end(), 0) != one.whole_shape.end();
  if (one.shard_dim && !empty && sum != static_cast<std::uint64_t>(one.whole_shape[*one.shard_dim]))
    fail(t, 0,
         "of shape " + shape_text(one.whole_shape) + " has pieces of " + std::to_string(sum) + " along dimension " +
             std::to_string(*one.shard_dim));
}

RLCORE_INLINE void sharded_torch::read_piece(const tensor& t, std::size_t rank, std::uint64_t first,
                                             std::span<std::byte> bytes) {
  const torch_tensor& p = t.pieces[rank];
  const std::size_t element = bytes_of(p.dtype);
  std::uint64_t run = 1;  // elements that lie side by side
  std::size_t outer = p.shape.size();
  while (outer > 0 && (p.shape[outer - 1] == 1 || static_cast<std::uint64_t>(p.stride[outer - 1]) == run))
    run *= static_cast<std::uint64_t>(p.shape[--outer]);
  while (!bytes.empty()) {
    std::uint64_t index = first / run, position = p.offset + first % run;
    for (std::size_t d = outer; d-- > 0;) {
      const auto n = static_cast<std::uint64_t>(p.shape[d]);
      position += index % n * static_cast<std::uint64_t>(p.stride[d]);
      index /= n;
    }
    const std::uint64_t count = std::min<std::uint64_t>(bytes.size() / element, run - first % run);
    const auto part = bytes.first(static_cast<std::size_t>(count * element));
    read_storage(rank, p.storage, position * element, part);
    bytes = bytes.subspan(part.size());
    first += count;
  }
}

RLCORE_INLINE void sharded_torch::read_storage(std::size_t rank, const std::string& name, std::uint64_t position,
                                               std::span<std::byte> bytes) {
  const torch_zip& zip = files_[rank]->archive();
  const zip_record& record = zip.record(name);
  zip.read(record, position, bytes);
  checked& c = verified_[rank][name];
  if (c.next != position) return;
  c.crc = crc32(bytes, c.crc);
  c.next += bytes.size();
  if (c.next == record.size && c.crc != record.crc) zip.fail("damaged: record '" + name + "' has another CRC-32");
}

RLCORE_INLINE void sharded_torch::check_copies(const tensor& t, std::uint64_t first, std::span<const std::byte> bytes) {
  std::vector<std::byte> other(bytes.size());
  for (std::size_t r = 1; r < t.pieces.size(); ++r) {
    read_piece(t, r, first, other);
    if (!std::equal(bytes.begin(), bytes.end(), other.begin()))
      fail(t, r, "is not distributed and differs from rank 0's");
  }
}

}  // namespace checkpoint
RLCORE_END
#endif
