// Reading one safetensors file, tensor by tensor.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/safetensors_header.hpp"
#include "rlcore/core/dtype.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace checkpoint {

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
