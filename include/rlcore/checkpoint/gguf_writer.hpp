// Writing one GGUF file as a stream: metadata, then the tensors.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/text/gguf/gguf_source.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Metadata values, in the order in which they are added.
class gguf_metadata {
 public:
  /// A text.
  void add_text(std::string_view key, std::string_view value) { begin(key, text::gguf_type::string).text(value); }
  /// An integer of 32 bits.
  void add_integer(std::string_view key, std::uint32_t value) { begin(key, text::gguf_type::u32).number(value); }
  /// A float.
  void add_number(std::string_view key, float value) {
    begin(key, text::gguf_type::f32).number(std::bit_cast<std::uint32_t>(value));
  }
  /// True or false.
  void add_boolean(std::string_view key, bool value) {
    begin(key, text::gguf_type::boolean).number(static_cast<std::uint8_t>(value));
  }
  /// A list of texts.
  void add_list(std::string_view key, std::span<const std::string> values) {
    begin_list(key, text::gguf_type::string, values.size());
    for (const std::string& value : values) text(value);
  }
  /// A list of integers.
  void add_list(std::string_view key, std::span<const std::int32_t> values) {
    begin_list(key, text::gguf_type::i32, values.size());
    for (const std::int32_t value : values) number(value);
  }
  /// A list of floats.
  void add_list(std::string_view key, std::span<const float> values) {
    begin_list(key, text::gguf_type::f32, values.size());
    for (const float value : values) number(std::bit_cast<std::uint32_t>(value));
  }

  std::uint64_t count() const noexcept { return count_; }
  const std::string& bytes() const noexcept { return bytes_; }

 private:
  template <class T>
  gguf_metadata& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  gguf_metadata& text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes_ += value;
    return *this;
  }
  gguf_metadata& begin(std::string_view key, text::gguf_type type) {
    ++count_;
    return text(key).number(static_cast<std::uint32_t>(type));
  }
  void begin_list(std::string_view key, text::gguf_type type, std::size_t size) {
    begin(key, text::gguf_type::array).number(static_cast<std::uint32_t>(type)).number(std::uint64_t{size});
  }

  std::string bytes_;
  std::uint64_t count_ = 0;
};

/// A tensor to be written, with a shape in the order of safetensors.
struct gguf_output {
  std::string name;
  std::vector<std::int64_t> shape;
  const text::gguf_block* block = nullptr;

  std::uint64_t bytes() const noexcept {
    std::uint64_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<std::uint64_t>(extent);
    return size / block->elements * block->bytes;
  }
};

/// Writes the tensors announced to the constructor, in that order, in pieces of any size. The file is complete when
/// finish() returned; every write is checked (file_error).
class gguf_writer {
 public:
  /// Writes the header. Throws file_error.
  gguf_writer(const std::filesystem::path& path, const gguf_metadata& metadata, std::vector<gguf_output> tensors);

  /// The next bytes of the current tensor, to its end at most. Throws std::invalid_argument for more.
  void append(std::span<const std::byte> bytes);

  /// Forces the file to the disk. Throws std::invalid_argument when announced tensors are missing.
  void finish();

 private:
  static constexpr std::uint64_t alignment = 32;
  static std::uint64_t padding(std::uint64_t bytes) noexcept { return (alignment - bytes % alignment) % alignment; }
  void write(std::string_view bytes) {
    file_.write(bytes);
    written_ += bytes.size();
  }

  data::output_file file_;
  std::vector<gguf_output> tensors_;
  std::size_t next_ = 0;
  std::uint64_t written_ = 0, in_tensor_ = 0;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <utility>

#include "rlcore/core/compiler.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE gguf_writer::gguf_writer(const std::filesystem::path& path, const gguf_metadata& metadata,
                                       std::vector<gguf_output> tensors)
    : file_(path), tensors_(std::move(tensors)) {
  std::string header = "GGUF";
  const auto number = [&](auto value) { header.append(reinterpret_cast<const char*>(&value), sizeof value); };
  number(std::uint32_t{3});
  number(std::uint64_t{tensors_.size()});
  number(metadata.count());
  header += metadata.bytes();
  std::uint64_t at = 0;
  for (const gguf_output& t : tensors_) {
    number(std::uint64_t{t.name.size()});
    header += t.name;
    number(static_cast<std::uint32_t>(t.shape.size()));
    for (auto extent = t.shape.rbegin(); extent != t.shape.rend(); ++extent) number(*extent);
    number(t.block->type);
    number(at);
    at += t.bytes() + padding(t.bytes());
  }
  header.append(static_cast<std::size_t>(padding(header.size())), '\0');
  write(header);
}

RLCORE_INLINE void gguf_writer::append(std::span<const std::byte> bytes) {
  require(next_ < tensors_.size() && bytes.size() <= tensors_[next_].bytes() - in_tensor_,
          "gguf_writer: more bytes than the announced tensors have");
  file_.write(bytes);
  written_ += bytes.size(), in_tensor_ += bytes.size();
  if (in_tensor_ < tensors_[next_].bytes()) return;
  write(std::string(static_cast<std::size_t>(padding(written_)), '\0'));
  in_tensor_ = 0, ++next_;
}

RLCORE_INLINE void gguf_writer::finish() {
  require(next_ == tensors_.size(), "gguf_writer: announced tensors are missing");
  file_.close();
}

}  // namespace checkpoint
RLCORE_END
#endif
