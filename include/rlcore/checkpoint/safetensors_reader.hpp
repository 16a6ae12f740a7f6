// Reads a safetensors file: header and tensors.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/tensor_info.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The validated header.
struct safetensors_header {
  std::vector<tensor_info> tensors;             ///< in the order of their data
  std::map<std::string, std::string> metadata;  ///< "__metadata__"
  std::uint64_t data_begin = 0;                 ///< position in the file where the data part starts
};

/// The limit of the format: every implementation refuses longer headers.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;

/// One entry of the header. `where` starts the message of the format_error.
tensor_info parse_tensor_info(const std::string& where, const std::string& name, const nlohmann::json& entry);

namespace detail {

/// Reads the JSON of a header without keeping it, and throws format_error for a name that is there twice. (nlohmann's
/// parser with a callback looks through all of an object behind each of its members.)
class header_names final : public nlohmann::json_sax<nlohmann::json> {
 public:
  /// `where` starts the message.
  explicit header_names(std::string where) : where_(std::move(where)) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t& name) override {
    if (depth_ == 1 && !names_.insert(name).second)
      throw format_error(where_ + ": tensor '" + data::printable(name) + "' is in the header twice");
    return true;
  }
  bool start_object(std::size_t) override { return ++depth_, true; }
  bool start_array(std::size_t) override { return ++depth_, true; }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  std::string where_;
  std::set<std::string> names_;
  std::size_t depth_ = 0;
};

}  // namespace detail

/// Parses the JSON and refuses everything that is not a header: duplicate names, and tensors that overlap, leave holes
/// or do not end at the end of the file. `data_bytes` is the size of the data part.
safetensors_header parse_safetensors_header(const std::string& where, std::string_view text, std::uint64_t data_bytes);

/// Reads and validates the header; throws file_error or format_error.
safetensors_header read_safetensors_header(const data::input_file& file);

static_assert(std::endian::native == std::endian::little, "rlcore: safetensors data is little endian");

/// One open file whose header has been checked against its size. Reading is thread safe (positional reads).
class safetensors_reader {
 public:
  /// Throws file_error or format_error.
  explicit safetensors_reader(const std::filesystem::path& path)
      : file_(path), header_(read_safetensors_header(file_)), by_name_(header_.tensors.size()) {
    for (std::size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
    std::sort(by_name_.begin(), by_name_.end(),
              [&](std::size_t a, std::size_t b) { return header_.tensors[a].name < header_.tensors[b].name; });
  }

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// In the order of their data.
  const std::vector<tensor_info>& tensors() const noexcept { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }

  /// nullptr when the file has no such tensor.
  const tensor_info* find(std::string_view name) const noexcept {
    const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                     [&](std::size_t i, std::string_view n) { return header_.tensors[i].name < n; });
    return at != by_name_.end() && header_.tensors[*at].name == name ? &header_.tensors[*at] : nullptr;
  }
  /// Does the file have a tensor of this name?
  bool contains(std::string_view name) const noexcept { return find(name) != nullptr; }

  /// Throws format_error with the nearest name when the file has no such tensor.
  const tensor_info& info(std::string_view name) const;

  /// The stored bytes from byte `first` of the tensor on; `bytes` must not reach past its end.
  void read_bytes(std::string_view name, std::span<std::byte> bytes, std::uint64_t first = 0) const;

  /// The whole tensor, of type F32, F16 or BF16, as float (exact). Another type or number of elements is a
  /// format_error.
  void read_f32(std::string_view name, std::span<float> values) const;

  /// Its elements `first` to `first + values.size()`. Throws std::invalid_argument when they reach past the tensor.
  void read_f32(std::string_view name, std::span<float> values, std::uint64_t first) const;

 private:
  /// In blocks that stay in the cache.
  template <class Half>
  void read_halves(std::uint64_t at, std::span<float> values) const {
    std::array<Half, 8192> block;
    for (; !values.empty(); at += sizeof block) {
      const std::size_t n = std::min(block.size(), values.size());
      file_.read(at, std::as_writable_bytes(std::span(block).first(n)));
      for (std::size_t i = 0; i < n; ++i) values[i] = block[i];
      values = values.subspan(n);
    }
  }

  data::input_file file_;
  safetensors_header header_;
  std::vector<std::size_t> by_name_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE tensor_info parse_tensor_info(const std::string& where, const std::string& name,
                                            const nlohmann::json& entry) {
  const std::string tensor = where + ": tensor '" + data::printable(name) + "'";
  const auto fail = [&](const std::string& message) { throw format_error(tensor + ": " + message); };
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") || !entry.contains("data_offsets"))
    fail("its header entry lacks dtype, shape or data_offsets");
  tensor_info info{name, stored_type::f32, {}, 0, 0};

  const nlohmann::json& dtype = entry["dtype"];
  const std::string type = dtype.is_string() ? dtype.get<std::string>() : "?";
  const auto known = std::find_if(stored_type_names.begin(), stored_type_names.end(),
                                  [&](const stored_type_name& t) { return t.name == type; });
  if (known == stored_type_names.end())
    fail("unsupported dtype '" + data::printable(type) + "'; expected F32, F16, BF16 or another whole-byte type");
  info.dtype = static_cast<stored_type>(known - stored_type_names.begin());

  if (!entry["shape"].is_array()) fail("shape is not a list");
  std::uint64_t size = 1;
  bool overflow = false, zero = false;
  for (const nlohmann::json& extent : entry["shape"]) {
    if (!extent.is_number_unsigned() || extent.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      fail("shape has an entry that is not a non-negative integer");
    const auto n = extent.get<std::uint64_t>();
    info.shape.push_back(static_cast<std::int64_t>(n));
    zero = zero || n == 0;
    overflow = overflow || (n != 0 && size > std::numeric_limits<std::int64_t>::max() / 8 / n);
    if (!overflow) size *= n;
  }
  if (zero) size = 0;
  if (overflow && !zero) fail("shape " + shape_text(info.shape) + " is too large");

  const nlohmann::json& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned())
    fail("data_offsets are not two non-negative integers");
  info.begin = offsets[0].get<std::uint64_t>();
  info.end = offsets[1].get<std::uint64_t>();
  if (info.end < info.begin || info.end - info.begin != size * bytes_of(info.dtype))
    fail("data_offsets [" + std::to_string(info.begin) + ", " + std::to_string(info.end) + "] do not fit shape " +
         shape_text(info.shape) + " of " + type + ", which needs " + std::to_string(size * bytes_of(info.dtype)) +
         " bytes");
  return info;
}

RLCORE_INLINE safetensors_header parse_safetensors_header(const std::string& where, std::string_view text,
                                                          std::uint64_t data_bytes) {
  text::check_json_depth<format_error>(text, where + ": not a safetensors file");
  nlohmann::json root;
  if (text::zero_byte_at(text) != text.npos)
    throw format_error(where + ": not a safetensors file: its header is not valid JSON");
  try {
    detail::header_names names(where);
    nlohmann::json::sax_parse(text, &names);
    root = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception&) {
    throw format_error(where + ": not a safetensors file: its header is not valid JSON");
  }
  if (!root.is_object()) throw format_error(where + ": not a safetensors file: its header is not a JSON object");

  safetensors_header header;
  for (const auto& [name, entry] : root.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(parse_tensor_info(where, name, entry));
      continue;
    }
    if (!entry.is_object()) throw format_error(where + ": __metadata__ is not a JSON object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string())
        throw format_error(where + ": __metadata__ '" + data::printable(key) + "' is not a string");
      header.metadata.emplace(key, value.get<std::string>());
    }
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const tensor_info& a, const tensor_info& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t expected = 0;
  for (const tensor_info& t : header.tensors) {
    if (t.begin != expected)
      throw format_error(where + ": tensor '" + data::printable(t.name) + "' starts at data byte " +
                         std::to_string(t.begin) + "; expected " + std::to_string(expected) +
                         " (tensors must follow each other without overlap or gap)");
    expected = t.end;
  }
  if (expected != data_bytes)
    throw format_error(where + ": " + (expected > data_bytes ? "truncated" : "too long") + ": its tensors need " +
                       std::to_string(expected) + " bytes of data, the file has " + std::to_string(data_bytes));
  return header;
}

RLCORE_INLINE safetensors_header read_safetensors_header(const data::input_file& file) {
  const std::string where = file.path().string();
  if (file.size() < 8)
    throw format_error(where + ": truncated: a safetensors file has at least 8 bytes, this one has " +
                       std::to_string(file.size()));
  std::array<std::byte, 8> prefix;
  file.read(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > safetensors_header_limit)
    throw format_error(where + ": not a safetensors file: a header of " + std::to_string(length) + " bytes; at most " +
                       std::to_string(safetensors_header_limit) + " are allowed");
  if (length > file.size() - 8)
    throw format_error(where + ": truncated: a header of " + std::to_string(length) + " bytes is announced, " +
                       std::to_string(file.size() - 8) + " are left in the file");
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  if (text.empty() || text.front() != '{')
    throw format_error(where + ": not a safetensors file: its header does not start with '{'");
  safetensors_header header = parse_safetensors_header(where, text, file.size() - 8 - length);
  header.data_begin = 8 + length;
  return header;
}

RLCORE_INLINE const tensor_info& safetensors_reader::info(std::string_view name) const {
  if (const tensor_info* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const tensor_info& t : header_.tensors) names.push_back(t.name);
  throw format_error(path().string() + ": no tensor '" + data::printable(name) + "'" + did_you_mean(name, names));
}

RLCORE_INLINE void safetensors_reader::read_bytes(std::string_view name, std::span<std::byte> bytes,
                                                  std::uint64_t first) const {
  const tensor_info& t = info(name);
  if (first > t.bytes() || bytes.size() > t.bytes() - first)
    throw std::invalid_argument("rlcore: read_bytes of tensor '" + t.name + "': " + std::to_string(bytes.size()) +
                                " bytes from " + std::to_string(first) + " of " + std::to_string(t.bytes()));
  file_.read(header_.data_begin + t.begin + first, bytes);
}

RLCORE_INLINE void safetensors_reader::read_f32(std::string_view name, std::span<float> values) const {
  const tensor_info& t = info(name);
  if (t.size() != values.size())
    throw format_error(path().string() + ": tensor '" + data::printable(name) + "' has shape " + shape_text(t.shape) +
                       "; expected " + std::to_string(values.size()) + " elements");
  read_f32(name, values, 0);
}

RLCORE_INLINE void safetensors_reader::read_f32(std::string_view name, std::span<float> values,
                                                std::uint64_t first) const {
  const tensor_info& t = info(name);
  if (t.dtype != stored_type::f32 && t.dtype != stored_type::f16 && t.dtype != stored_type::bf16)
    throw format_error(path().string() + ": tensor '" + data::printable(name) + "' is stored as " +
                       std::string(name_of(t.dtype)) + "; expected F32, F16 or BF16");
  if (first > t.size() || values.size() > t.size() - first)
    throw std::invalid_argument("rlcore: read_f32 of tensor '" + t.name + "' " + shape_text(t.shape) + ": " +
                                std::to_string(values.size()) + " elements from " + std::to_string(first) +
                                " asked for, it has " + std::to_string(t.size()));
  const std::uint64_t at = header_.data_begin + t.begin + first * bytes_of(t.dtype);
  if (t.dtype == stored_type::f32) return file_.read(at, std::as_writable_bytes(values));
  if (t.dtype == stored_type::f16) return read_halves<f16>(at, values);
  read_halves<bf16>(at, values);
}

}  // namespace checkpoint
RLCORE_END
#endif
