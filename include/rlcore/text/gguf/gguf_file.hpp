// The header of a GGUF file: metadata, and where its tensors are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/gguf/gguf_source.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// A tensor of a file.
struct gguf_tensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< the last extent is the contiguous one, as in safetensors
  const gguf_block* block = nullptr;
  std::uint64_t position = 0, bytes = 0;  ///< in the file

  std::uint64_t size() const noexcept { return bytes / block->bytes * block->elements; }
};

/// An open GGUF file (version 2 or 3, little endian) whose header has been checked against its size: counts and lengths
/// before memory is taken for them, tensors for known types, and for places that do not overlap. Not for several
/// threads at once.
class gguf_file {
 public:
  /// Throws file_error; format_error for what is not such a file, or for one of several parts.
  explicit gguf_file(const std::filesystem::path& path);

  const std::filesystem::path& path() const noexcept { return source_.path(); }
  /// In the order of their data.
  const std::vector<gguf_tensor>& tensors() const noexcept { return tensors_; }
  /// nullptr when the file has no such tensor.
  const gguf_tensor* find(std::string_view name) const noexcept;

  /// Has the file a value of this key?
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  /// The text of a key; empty without it. Throws format_error for another type, and for what is not UTF-8.
  std::optional<std::string> text(std::string_view key) const;
  /// The integer of a key; empty without it. Throws format_error for another type, and below 0.
  std::optional<std::uint64_t> integer(std::string_view key) const;
  /// The number of a key, of a float its shortest decimal; empty without it. Throws format_error for another type.
  std::optional<double> number(std::string_view key) const;
  /// The truth of a key; empty without it. Throws format_error for another type.
  std::optional<bool> boolean(std::string_view key) const;
  /// The list of texts of a key; empty without it. Throws format_error for another type, and for what is not UTF-8.
  std::vector<std::string> texts(std::string_view key) const;
  /// The list of integers of a key; empty without it. Throws format_error for another type.
  std::vector<std::uint64_t> integers(std::string_view key) const;
  /// The list of floats of a key; empty without it. Throws format_error for another type.
  std::vector<float> numbers(std::string_view key) const;

  /// Throws format_error: the file, the key, what it is or that it is missing, and `expected`.
  [[noreturn]] void fail(std::string_view key, std::string_view expected) const;
  /// Fills `bytes` from byte `position` of the file on. Throws file_error when the file ends before.
  void read(std::uint64_t position, std::span<std::byte> bytes) const { source_.read(position, bytes); }

 private:
  /// A value: `element` and `count` are those of a list, `position` is where its first byte is.
  struct value {
    gguf_type type = gguf_type::u8, element = gguf_type::u8;
    std::uint64_t count = 0, position = 0;
  };

  void read_values(gguf_cursor& from, std::uint64_t count);
  void read_tensors(gguf_cursor& from, std::uint64_t count);
  void place_tensors(std::uint64_t data_begin);
  const value* of(std::string_view key, std::initializer_list<gguf_type> types, const char* expected) const;
  const value* list_of(std::string_view key, std::initializer_list<gguf_type> types, const char* expected) const;
  std::uint64_t bits_at(std::uint64_t position, gguf_type type) const;

  gguf_source source_;
  std::map<std::string, value, std::less<>> values_;
  std::vector<gguf_tensor> tensors_;
  std::map<std::string_view, std::size_t> by_name_;
};

namespace detail {

/// A name as a message shows it.
inline std::string shown(std::string_view name) { return one_line(utf8_lossy(name.substr(0, 120)), 120); }

}  // namespace detail

/// Is it a file whose name ends in .gguf?
bool is_gguf(const std::filesystem::path& path);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_JSON)
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

static_assert(std::endian::native == std::endian::little, "rlcore: GGUF data is little endian");

RLCORE_INLINE gguf_file::gguf_file(const std::filesystem::path& path) : source_(path) {
  if (source_.size() < 24)
    throw format_error(path.string() + ": truncated: a GGUF file has at least 24 bytes, this one has " +
                       std::to_string(source_.size()));
  gguf_cursor from(source_);
  if (from.number<std::uint32_t>() != 0x46554747U)
    throw format_error(path.string() + ": not a GGUF file: it does not begin with GGUF");
  const auto version = from.number<std::uint32_t>();
  if (version == 0x02000000U || version == 0x03000000U)
    throw format_error(path.string() + ": its numbers are big endian; expected a file made for this machine");
  if (version != 2 && version != 3)
    throw format_error(path.string() + ": GGUF version " + std::to_string(version) +
                       "; expected 2 or 3 (convert the model again)");
  const auto tensors = from.number<std::uint64_t>(), values = from.number<std::uint64_t>();
  read_values(from, values);
  if (const auto parts = integer("split.count").value_or(1); parts > 1)
    throw format_error(path.string() + ": is one of " + std::to_string(parts) +
                       " parts of a model; expected a whole file (llama-gguf-split --merge makes one)");
  read_tensors(from, tensors);
  place_tensors(from.position());
}

RLCORE_INLINE void gguf_file::read_values(gguf_cursor& from, std::uint64_t count) {
  from.check(count, 13, "metadata values");
  const auto type = [&](const std::string& key) {
    const auto number = from.number<std::uint32_t>();
    if (number > static_cast<std::uint32_t>(gguf_type::f64))
      from.fail("key '" + detail::shown(key) + "' has a value of unknown type " + std::to_string(number));
    return static_cast<gguf_type>(number);
  };
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string key = from.text();
    value v{type(key), gguf_type::u8, 1, 0};
    v.element = v.type;
    if (v.type == gguf_type::array) {
      v.element = type(key);
      if (v.element == gguf_type::array) from.fail("key '" + detail::shown(key) + "' is a list of lists");
      v.count = from.number<std::uint64_t>();
    }
    v.position = from.position();
    const std::uint64_t bytes = bytes_of(v.element);
    from.check(v.count, bytes == 0 ? 8 : bytes, "elements of '" + detail::shown(key) + "'");
    if (bytes != 0) {
      from.skip(v.count * bytes);
    } else {
      for (std::uint64_t e = 0; e < v.count; ++e) from.skip(from.number<std::uint64_t>());
    }
    if (!values_.emplace(key, v).second) from.fail("key '" + detail::shown(key) + "' is there twice");
  }
}

RLCORE_INLINE void gguf_file::read_tensors(gguf_cursor& from, std::uint64_t count) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  from.check(count, 32, "tensors");
  for (std::uint64_t i = 0; i < count; ++i) {
    gguf_tensor t;
    t.name = from.text();
    const std::string tensor = "tensor '" + detail::shown(t.name) + "' ";
    const auto dimensions = from.number<std::uint32_t>();
    if (dimensions == 0 || dimensions > 4)
      from.fail(tensor + "has " + std::to_string(dimensions) + " dimensions; expected 1 to 4");
    std::uint64_t size = 1;
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      const auto extent = from.number<std::uint64_t>();
      if (extent == 0 || extent > most / 8 / size)
        from.fail(tensor + "has the extent " + std::to_string(extent) + "; expected at least 1, and fewer elements");
      size *= extent;
      t.shape.insert(t.shape.begin(), static_cast<std::int64_t>(extent));
    }
    const auto type = from.number<std::uint32_t>();
    const auto block =
        std::find_if(std::begin(gguf_blocks), std::end(gguf_blocks), [&](const auto& b) { return b.type == type; });
    if (block == std::end(gguf_blocks)) from.fail(tensor + "has the unknown type " + std::to_string(type));
    t.block = &*block;
    if (static_cast<std::uint64_t>(t.shape.back()) % block->elements != 0)
      from.fail(tensor + "of type " + std::string(block->name) + " has rows of " + std::to_string(t.shape.back()) +
                "; expected a multiple of " + std::to_string(block->elements));
    t.bytes = size / block->elements * block->bytes;
    t.position = from.number<std::uint64_t>();
    tensors_.push_back(std::move(t));
  }
}

RLCORE_INLINE void gguf_file::place_tensors(std::uint64_t data_begin) {
  const std::uint64_t alignment = integer("general.alignment").value_or(32);
  if (!std::has_single_bit(alignment) || alignment > (std::uint64_t{1} << 30))
    fail("general.alignment", "a power of two up to 2^30");
  data_begin = (data_begin + alignment - 1) / alignment * alignment;
  const auto tensor = [&](const gguf_tensor& t) {
    return path().string() + ": tensor '" + detail::shown(t.name) + "' ";
  };
  for (gguf_tensor& t : tensors_) {
    if (t.position % alignment != 0)
      throw format_error(tensor(t) + "begins at data byte " + std::to_string(t.position) + "; expected a multiple of " +
                         std::to_string(alignment));
    if (data_begin > source_.size() || t.position > source_.size() - data_begin ||
        t.bytes > source_.size() - data_begin - t.position)
      throw format_error(tensor(t) + "needs " + std::to_string(t.bytes) + " bytes from data byte " +
                         std::to_string(t.position) + " on, the file has " +
                         std::to_string(source_.size() - std::min(data_begin, source_.size())) + ": truncated");
    t.position += data_begin;
  }
  std::stable_sort(tensors_.begin(), tensors_.end(),
                   [](const gguf_tensor& a, const gguf_tensor& b) { return a.position < b.position; });
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i > 0 && tensors_[i].position < tensors_[i - 1].position + tensors_[i - 1].bytes)
      throw format_error(tensor(tensors_[i]) + "overlaps '" + detail::shown(tensors_[i - 1].name) + "'");
    if (!by_name_.emplace(tensors_[i].name, i).second) throw format_error(tensor(tensors_[i]) + "is there twice");
  }
}

RLCORE_INLINE const gguf_tensor* gguf_file::find(std::string_view name) const noexcept {
  const auto at = by_name_.find(name);
  return at == by_name_.end() ? nullptr : &tensors_[at->second];
}

RLCORE_INLINE void gguf_file::fail(std::string_view key, std::string_view expected) const {
  const auto at = values_.find(key);
  std::string found = "is missing";
  if (at != values_.end()) {
    const value& v = at->second;
    found = v.type == gguf_type::array                             ? "is a list of " + std::to_string(v.count)
            : v.type == gguf_type::string                          ? "is '" + detail::shown(*text(key)) + "'"
            : v.type == gguf_type::f32 || v.type == gguf_type::f64 ? "is " + std::to_string(*number(key))
            : v.type == gguf_type::boolean
                ? (*boolean(key) ? "is true" : "is false")
                : "is " + std::to_string(static_cast<std::int64_t>(bits_at(v.position, v.type)));
  }
  throw format_error(path().string() + ": key '" + std::string(key) + "' " + found + "; expected " +
                     std::string(expected));
}

RLCORE_INLINE auto gguf_file::of(std::string_view key, std::initializer_list<gguf_type> types,
                                 const char* expected) const -> const value* {
  const auto at = values_.find(key);
  if (at == values_.end()) return nullptr;
  if (std::find(types.begin(), types.end(), at->second.type) == types.end()) fail(key, expected);
  return &at->second;
}

RLCORE_INLINE auto gguf_file::list_of(std::string_view key, std::initializer_list<gguf_type> types,
                                      const char* expected) const -> const value* {
  const value* v = of(key, {gguf_type::array}, expected);
  if (v != nullptr && std::find(types.begin(), types.end(), v->element) == types.end()) fail(key, expected);
  return v;
}

/// The value's bytes; signed integers keep their sign.
RLCORE_INLINE std::uint64_t gguf_file::bits_at(std::uint64_t position, gguf_type type) const {
  std::array<std::byte, 8> bytes{};
  const auto size = static_cast<std::size_t>(bytes_of(type));
  read(position, std::span(bytes).first(size));
  std::uint64_t bits;
  std::memcpy(&bits, bytes.data(), sizeof bits);
  const bool is_signed =
      type == gguf_type::i8 || type == gguf_type::i16 || type == gguf_type::i32 || type == gguf_type::i64;
  const std::size_t unused = 64 - 8 * size;
  return is_signed ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused) >> unused) : bits;
}

RLCORE_INLINE std::optional<std::string> gguf_file::text(std::string_view key) const {
  const value* v = of(key, {gguf_type::string}, "a text");
  if (v == nullptr) return std::nullopt;
  std::string s(static_cast<std::size_t>(bits_at(v->position, gguf_type::u64)), '\0');
  read(v->position + 8, std::as_writable_bytes(std::span(s)));
  if (first_broken_utf8(s) != s.size())
    throw format_error(path().string() + ": key '" + std::string(key) + "' is not UTF-8");
  return s;
}

RLCORE_INLINE std::optional<std::uint64_t> gguf_file::integer(std::string_view key) const {
  using enum gguf_type;
  const value* v = of(key, {u8, i8, u16, i16, u32, i32, u64, i64}, "an integer");
  if (v == nullptr) return std::nullopt;
  const std::uint64_t bits = bits_at(v->position, v->type);
  if (bits > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    fail(key, "an integer of at least 0");
  return bits;
}

RLCORE_INLINE std::optional<double> gguf_file::number(std::string_view key) const {
  const value* v = of(key, {gguf_type::f32, gguf_type::f64}, "a number");
  if (v == nullptr) return std::nullopt;
  const std::uint64_t bits = bits_at(v->position, v->type);
  if (v->type == gguf_type::f64) return std::bit_cast<double>(bits);
  // The decimal that the float was written as: 1e-05 rather than 9.99999975e-06.
  const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  char digits[32];
  double written = static_cast<double>(x);
  if (std::isfinite(x)) std::from_chars(digits, std::to_chars(digits, std::end(digits), x).ptr, written);
  return written;
}

RLCORE_INLINE std::optional<bool> gguf_file::boolean(std::string_view key) const {
  const value* v = of(key, {gguf_type::boolean}, "true or false");
  if (v == nullptr) return std::nullopt;
  return bits_at(v->position, v->type) != 0;
}

RLCORE_INLINE std::vector<std::string> gguf_file::texts(std::string_view key) const {
  std::vector<std::string> list;
  const value* v = list_of(key, {gguf_type::string}, "a list of texts");
  if (v == nullptr) return list;
  gguf_cursor from(source_);
  from.skip(v->position);
  list.reserve(static_cast<std::size_t>(v->count));
  for (std::uint64_t i = 0; i < v->count; ++i) {
    list.push_back(from.text());
    if (first_broken_utf8(list.back()) != list.back().size())
      throw format_error(path().string() + ": key '" + std::string(key) + "': text " + std::to_string(i) +
                         " is not UTF-8");
  }
  return list;
}

RLCORE_INLINE std::vector<std::uint64_t> gguf_file::integers(std::string_view key) const {
  using enum gguf_type;
  const value* v = list_of(key, {u8, i8, u16, i16, u32, i32, u64, i64, gguf_type::boolean}, "a list of integers");
  if (v == nullptr) return {};
  gguf_cursor from(source_);
  from.skip(v->position);
  std::vector<std::uint64_t> list(static_cast<std::size_t>(v->count));
  const auto size = static_cast<std::size_t>(bytes_of(v->element));
  for (std::uint64_t& x : list) {
    x = 0;
    from.take(std::as_writable_bytes(std::span(&x, 1)).first(size));
  }
  return list;
}

RLCORE_INLINE std::vector<float> gguf_file::numbers(std::string_view key) const {
  const value* v = list_of(key, {gguf_type::f32}, "a list of numbers");
  if (v == nullptr) return {};
  std::vector<float> list(static_cast<std::size_t>(v->count));
  read(v->position, std::as_writable_bytes(std::span(list)));
  return list;
}

RLCORE_INLINE bool is_gguf(const std::filesystem::path& path) {
  std::error_code ignored;
  return path.extension() == ".gguf" && std::filesystem::is_regular_file(path, ignored);
}

}  // namespace text
RLCORE_END
#endif
