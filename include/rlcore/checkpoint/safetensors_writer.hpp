// Writing one safetensors file as a stream: the header is known from the shapes, then the data follows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// A tensor to be written: row-major floats somewhere in memory.
struct tensor_source {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;
};

/// The metadata that `transformers` expects in every file.
inline const std::map<std::string, std::string>& default_metadata() {
  static const std::map<std::string, std::string> metadata{{"format", "pt"}};
  return metadata;
}

/// Writes the tensors announced to the constructor, in that order, in pieces of any size. The file is complete when
/// finish() returned; every write is checked (file_error).
class safetensors_writer {
 public:
  /// `tensors`: name, dtype and shape count; begin and end are computed here. Names must be unique (format_error).
  safetensors_writer(const std::filesystem::path& path, std::vector<tensor_info> tensors,
                     const std::map<std::string, std::string>& metadata = default_metadata());

  /// The next elements, rounded to nearest even where the announced type has 16 bits. Throws std::invalid_argument when
  /// the type is not F32, F16 or BF16 or the elements reach past the current tensor.
  void append(std::span<const float> values);

  /// The next bytes of the data part as they are.
  void append_bytes(std::span<const std::byte> bytes) {
    file_.write(bytes);
    written_ += bytes.size();
    while (next_ < tensors_.size() && tensors_[next_].end <= written_) ++next_;
  }

  /// Forces the file to the disk. Throws std::invalid_argument when announced tensors are missing.
  void finish();

 private:
  static constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

  const tensor_info& current(std::size_t count) const;
  template <class Half>
  void append_as(std::span<const float> values) {
    buffer_.clear();
    for (const float x : values) buffer_.push_back(Half(x).bits);
    append_bytes(std::as_bytes(std::span(buffer_)));
  }

  data::output_file file_;
  std::vector<tensor_info> tensors_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0;
  std::vector<std::uint16_t> buffer_;
};

/// Throws std::invalid_argument unless the values of `source` fill its shape.
void check_size(const tensor_source& source);

/// One file with all `tensors` sorted by name, so that equal content makes equal files. The path holds the old file or
/// the new one, never a part.
void write_safetensors(const std::filesystem::path& path, std::span<const tensor_source> tensors,
                       stored_type type = stored_type::f32,
                       const std::map<std::string, std::string>& metadata = default_metadata());

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE safetensors_writer::safetensors_writer(const std::filesystem::path& path,
                                                     std::vector<tensor_info> tensors,
                                                     const std::map<std::string, std::string>& metadata)
    : file_(path), tensors_(std::move(tensors)) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t position = 0;
  for (tensor_info& t : tensors_) {
    if (t.name == "__metadata__" || header.contains(t.name))
      throw format_error(path.string() + ": tensor name '" + data::printable(t.name) + "' is taken");
    t.begin = position;
    position += bytes_of(t.dtype);
    for (const std::int64_t extent : t.shape)
      position = t.begin + (position - t.begin) * static_cast<std::uint64_t>(extent);
    t.end = position;
    header[t.name] = {{"dtype", name_of(t.dtype)}, {"shape", t.shape}, {"data_offsets", {t.begin, t.end}}};
  }
  std::string text = text::json_text(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  std::byte prefix[8];
  for (std::size_t i = 0; i < 8; ++i) prefix[i] = static_cast<std::byte>(text.size() >> (8 * i));
  file_.write(prefix);
  file_.write(text);
  buffer_.reserve(buffer_bytes);
}

RLCORE_INLINE void safetensors_writer::append(std::span<const float> values) {
  if (values.empty()) return;
  const stored_type type = current(values.size()).dtype;
  for (std::size_t i = 0; i < values.size(); i += buffer_bytes / 4) {
    const auto piece = values.subspan(i, std::min(values.size() - i, buffer_bytes / 4));
    if (type == stored_type::f32) {
      append_bytes(std::as_bytes(piece));
    } else if (type == stored_type::f16) {
      append_as<f16>(piece);
    } else if (type == stored_type::bf16) {
      append_as<bf16>(piece);
    } else {
      throw std::invalid_argument("rlcore: floats are stored as F32, F16 or BF16, not as " +
                                  std::string(name_of(type)));
    }
  }
}

RLCORE_INLINE void safetensors_writer::finish() {
  const std::uint64_t expected = tensors_.empty() ? 0 : tensors_.back().end;
  if (written_ != expected)
    throw std::invalid_argument("rlcore: " + std::to_string(written_) + " of " + std::to_string(expected) +
                                " bytes of tensors were appended to " + file_.path().string());
  file_.close();
}

RLCORE_INLINE const tensor_info& safetensors_writer::current(std::size_t count) const {
  if (next_ == tensors_.size() || count * bytes_of(tensors_[next_].dtype) > tensors_[next_].end - written_)
    throw std::invalid_argument("rlcore: more elements than tensor " +
                                (next_ == tensors_.size() ? std::string("list") : "'" + tensors_[next_].name + "'") +
                                " holds");
  return tensors_[next_];
}

RLCORE_INLINE void check_size(const tensor_source& source) {
  std::uint64_t size = 1;
  for (const std::int64_t extent : source.shape) size *= static_cast<std::uint64_t>(extent);
  if (size != source.values.size())
    throw std::invalid_argument("rlcore: tensor '" + source.name + "' of shape " + shape_text(source.shape) + " has " +
                                std::to_string(source.values.size()) + " values");
}

RLCORE_INLINE void write_safetensors(const std::filesystem::path& path, std::span<const tensor_source> tensors,
                                     stored_type type, const std::map<std::string, std::string>& metadata) {
  std::vector<const tensor_source*> sorted;
  for (const tensor_source& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  std::vector<tensor_info> announced;
  for (const tensor_source* t : sorted) {
    check_size(*t);
    announced.push_back({t->name, type, t->shape, 0, 0});
  }
  replace_file(path, [&](const std::filesystem::path& temporary) {
    safetensors_writer writer(temporary, std::move(announced), metadata);
    for (const tensor_source* t : sorted) writer.append(t->values);
    writer.finish();
  });
}

}  // namespace checkpoint
RLCORE_END
#endif
