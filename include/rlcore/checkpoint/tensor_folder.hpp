// Model folder weights: one safetensors file, several with an index, the shards of ranks, or a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "rlcore/checkpoint/gguf_tensors.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "rlcore/nn/vision/vision_config.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// All tensors of `model.safetensors`, or of the shards that `model.safetensors.index.json` lists. Without both, the
/// tensors that the ranks of a run saved (find_shards); only one thread may read these. Tensors that are stored under
/// the names of modules in memory (nn::name_on_disk) have their names on disk here. A GGUF file is a folder too
/// (gguf_tensors).
class tensor_folder {
 public:
  /// Throws file_error when neither file exists or a shard is missing, format_error when index and shards disagree.
  explicit tensor_folder(const std::filesystem::path& folder);

  const std::filesystem::path& path() const noexcept { return folder_; }
  /// The names of all tensors, sorted.
  std::vector<std::string> names() const;
  /// Does the folder have a tensor of this name?
  bool contains(std::string_view name) const {
    return where_.find(name) != where_.end() || pieces_.find(name) != pieces_.end();
  }
  /// As in safetensors_reader, for the file that holds the tensor.
  const tensor_info& info(std::string_view name) const {
    const auto at = pieces_.find(name);
    return at != pieces_.end() ? at->second : find(name).info;
  }
  /// Reads a whole tensor as floats. Throws format_error for an unknown name or another number of elements.
  void read_f32(std::string_view name, std::span<float> values) const;
  /// Reads values.size() elements from number `first` on, in row-major order.
  void read_f32(std::string_view name, std::span<float> values, std::uint64_t first) const;
  /// Reads a piece of a tensor of this shape.
  void read_f32(const shard_piece& piece, std::span<float> values) const;
  /// Reads stored bytes from byte `first` of the tensor on. Of shards, and of blocks in a GGUF file, they are floats;
  /// throws std::invalid_argument for
  /// parts of one.
  void read_bytes(std::string_view name, std::span<std::byte> bytes, std::uint64_t first = 0) const;
  /// Null unless these are shards.
  shard_reader* shards() const noexcept { return shards_.get(); }

 private:
  /// The location of a tensor and its name there; `info` has the name on disk.
  struct stored_tensor {
    const safetensors_reader* file;
    std::string stored_name;
    tensor_info info;
  };
  void place(const tensor_info& t, const safetensors_reader& file);
  void open_shards(const std::filesystem::path& index);
  const stored_tensor& find(std::string_view name) const;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<safetensors_reader>> files_;
  std::map<std::string, stored_tensor, std::less<>> where_;  // by the name on disk
  std::unique_ptr<shard_reader> shards_;
  std::unique_ptr<gguf_tensors> gguf_;
  std::map<std::string, tensor_info, std::less<>> pieces_;
};

/// Removes weight files of an earlier save that are not in `keep`: a reader would mix them up with the new files.
void remove_other_weights(const std::filesystem::path& folder, const std::set<std::string>& keep);

/// Writes `model.safetensors`. If `max_shard_bytes` is positive and too small for all tensors, writes shards
/// `model-0000i-of-0000k.safetensors` and their index instead. Tensors are sorted by name and never split.
void write_tensor_folder(const std::filesystem::path& folder, std::span<const tensor_source> tensors,
                         stored_type type = stored_type::f32, std::uint64_t max_shard_bytes = 0);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE tensor_folder::tensor_folder(const std::filesystem::path& folder) : folder_(folder) {
  if (text::is_gguf(folder)) {
    gguf_ = std::make_unique<gguf_tensors>(folder);
    pieces_ = gguf_->tensors();
    return;
  }
  const std::filesystem::path single = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    files_.push_back(std::make_unique<safetensors_reader>(single));
    for (const tensor_info& t : files_.back()->tensors()) place(t, *files_.back());
  } else if (std::filesystem::exists(index)) {
    open_shards(index);
  } else if (const std::filesystem::path shards = find_shards(folder); !shards.empty()) {
    shards_ = std::make_unique<shard_reader>(shards);
    for (const auto& [name, shape] : shards_->shapes())
      pieces_[name] = {name, stored_type::f32, shape, 0, parallel::elements_of(shape) * sizeof(float)};
  } else {
    throw file_error(folder.string() + ": no weights: neither model.safetensors nor model.safetensors.index.json");
  }
}

RLCORE_INLINE std::vector<std::string> tensor_folder::names() const {
  std::vector<std::string> list;
  for (const auto& [name, file] : where_) list.push_back(name);
  for (const auto& [name, info] : pieces_) list.push_back(name);
  return list;
}

RLCORE_INLINE void tensor_folder::read_f32(std::string_view name, std::span<float> values) const {
  if (const stored_tensor* t = shards_ || gguf_ ? nullptr : &find(name))
    return t->file->read_f32(t->stored_name, values);
  const tensor_info& t = info(name);
  if (t.size() != values.size())
    throw format_error(folder_.string() + ": tensor '" + data::printable(name) + "' has shape " + shape_text(t.shape) +
                       "; expected " + std::to_string(values.size()) + " elements");
  read_f32(name, values, 0);
}

RLCORE_INLINE void tensor_folder::read_f32(std::string_view name, std::span<float> values, std::uint64_t first) const {
  if (gguf_) return gguf_->read_f32(name, values, first);
  if (const stored_tensor* t = shards_ ? nullptr : &find(name)) return t->file->read_f32(t->stored_name, values, first);
  shard_piece wanted = parallel::whole_tensor(std::string(name), info(name).shape);
  wanted.first = static_cast<std::size_t>(first);
  wanted.last = wanted.first + values.size();
  shards_->read(wanted, values);
}

RLCORE_INLINE void tensor_folder::read_f32(const shard_piece& piece, std::span<float> values) const {
  if (shards_) return shards_->read(piece, values);
  parallel::for_each_overlap(parallel::whole_tensor(piece.tensor, piece.shape), piece,
                             [&](std::size_t from, std::size_t to, std::size_t count) {
                               read_f32(piece.tensor, values.subspan(to, count), from);
                             });
}

RLCORE_INLINE void tensor_folder::read_bytes(std::string_view name, std::span<std::byte> bytes,
                                             std::uint64_t first) const {
  if (gguf_) return gguf_->read_bytes(name, bytes, first);
  if (const stored_tensor* t = shards_ ? nullptr : &find(name))
    return t->file->read_bytes(t->stored_name, bytes, first);
  if (bytes.size() % sizeof(float) != 0 || first % sizeof(float) != 0)
    throw std::invalid_argument("rlcore: read_bytes of tensor '" + std::string(name) +
                                "': " + std::to_string(bytes.size()) + " bytes from " + std::to_string(first) +
                                " are not whole elements");
  std::vector<float> values(bytes.size() / sizeof(float));
  read_f32(name, values, first / sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
}

RLCORE_INLINE void tensor_folder::place(const tensor_info& t, const safetensors_reader& file) {
  tensor_info named = t;
  named.name = nn::name_on_disk(t.name);
  const auto [at, is_new] = where_.try_emplace(named.name, stored_tensor{&file, t.name, named});
  if (!is_new)
    throw format_error(folder_.string() + ": tensors '" + data::printable(at->second.stored_name) + "' and '" +
                       data::printable(t.name) + "' are one; expected either name");
}

RLCORE_INLINE void tensor_folder::open_shards(const std::filesystem::path& index) {
  const auto root = text::parse_json<format_error>(data::read_file(index), index.string());
  if (!root.is_object() || !root.contains("weight_map") || !root["weight_map"].is_object())
    throw format_error(index.string() + ": no object 'weight_map' that maps tensor names to files");
  std::map<std::string, const safetensors_reader*> shards;
  for (const auto& [name, value] : root["weight_map"].items()) {
    const std::string shard = value.is_string() ? value.get<std::string>() : "";
    if (shard.empty() || shard.find('/') != std::string::npos)
      throw format_error(index.string() + ": tensor '" + data::printable(name) + "' is mapped to '" +
                         data::printable(shard) + "'; expected a file name of the same folder");
    auto found = shards.find(shard);
    if (found == shards.end()) {
      std::error_code unusable;
      if (!std::filesystem::exists(folder_ / shard, unusable))
        throw file_error((folder_ / data::printable(shard)).string() + ": missing; " + index.filename().string() +
                         " expects tensor '" + data::printable(name) + "' in it");
      files_.push_back(std::make_unique<safetensors_reader>(folder_ / shard));
      found = shards.emplace(shard, files_.back().get()).first;
    }
    if (!found->second->contains(name))
      throw format_error((folder_ / shard).string() + ": no tensor '" + data::printable(name) + "', which " +
                         index.filename().string() + " expects in it");
    place(found->second->info(name), *found->second);
  }
  for (const auto& [shard, reader] : shards)
    for (const tensor_info& t : reader->tensors())
      if (const auto at = where_.find(nn::name_on_disk(t.name)); at == where_.end() || at->second.file != reader)
        throw format_error(reader->path().string() + ": tensor '" + data::printable(t.name) + "' is not listed in " +
                           index.filename().string());
}

RLCORE_INLINE auto tensor_folder::find(std::string_view name) const -> const stored_tensor& {
  const auto at = where_.find(name);
  if (at == where_.end())
    throw format_error(folder_.string() + ": no tensor '" + data::printable(name) + "'" + did_you_mean(name, names()));
  return at->second;
}

RLCORE_INLINE void remove_other_weights(const std::filesystem::path& folder, const std::set<std::string>& keep) {
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool weights =
        name.starts_with("model") && (name.ends_with(".safetensors") || name == "model.safetensors.index.json");
    if (weights && !keep.contains(name)) stale.push_back(entry.path());
  }
  for (const auto& path : stale)
    if (std::error_code code; !std::filesystem::remove(path, code) && code)
      data::throw_file_error(path, "remove", code.value());
}

RLCORE_INLINE void write_tensor_folder(const std::filesystem::path& folder, std::span<const tensor_source> tensors,
                                       stored_type type, std::uint64_t max_shard_bytes) {
  std::vector<tensor_source> sorted(tensors.begin(), tensors.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::uint64_t> bytes;
  for (const tensor_source& t : sorted) bytes.push_back(t.values.size() * bytes_of(type));
  const std::vector<std::size_t> bounds = shard_bounds(bytes, max_shard_bytes);
  const std::size_t shards = bounds.size() - 1;
  std::set<std::string> written;
  nlohmann::json map = nlohmann::json::object();
  for (std::size_t s = 0; s < shards; ++s) {
    const std::string name = shard_name(s, shards);
    const auto part = std::span(sorted).subspan(bounds[s], bounds[s + 1] - bounds[s]);
    write_safetensors(folder / name, part, type);
    written.insert(name);
    for (const tensor_source& t : part) map[t.name] = name;
  }
  if (shards > 1) {
    const std::uint64_t total = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
    const nlohmann::json index{{"metadata", {{"total_size", total}}}, {"weight_map", map}};
    data::output_file file(folder / "model.safetensors.index.json");
    file.write(text::json_text(index, 2) + "\n");
    file.close();
    written.insert("model.safetensors.index.json");
  }
  remove_other_weights(folder, written);
}

}  // namespace checkpoint
RLCORE_END
#endif
