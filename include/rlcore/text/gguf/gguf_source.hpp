// GGUF files: types of values and elements, and the bytes at any position or from front to back.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/text/text_file.hpp"

RLCORE_BEGIN
namespace text {

/// A file open for reading. One thread at a time.
class gguf_source {
 public:
  /// Throws file_error.
  explicit gguf_source(std::filesystem::path path) : path_(std::move(path)), file_(nullptr, &std::fclose) {
    check_input_kind(path_);
    file_.reset(std::fopen(path_.c_str(), "rb"));
    if (!file_) throw file_error(path_.string() + ": cannot open: " + std::strerror(errno));
    const bool measured = ::fseeko(file_.get(), 0, SEEK_END) == 0;
    const auto size = measured ? ::ftello(file_.get()) : -1;
    if (size < 0) throw file_error(path_.string() + ": cannot read: " + std::strerror(errno));
    size_ = static_cast<std::uint64_t>(size);
  }

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }
  /// Fills `bytes` from byte `position` on. Throws file_error when the file ends before.
  void read(std::uint64_t position, std::span<std::byte> bytes) const {
    if (::fseeko(file_.get(), static_cast<off_t>(position), SEEK_SET) != 0 ||
        std::fread(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
      throw file_error(path_.string() + ": cannot read " + std::to_string(bytes.size()) + " bytes from byte " +
                       std::to_string(position) + " on");
  }

 private:
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::uint64_t size_ = 0;
};

/// Reads a file from front to back; every length is checked against what is left of it before memory is taken.
class gguf_cursor {
 public:
  /// At the front of a file, which has to outlive this.
  explicit gguf_cursor(const gguf_source& file)
      : file_(file), buffer_(static_cast<std::size_t>(std::min<std::uint64_t>(1 << 16, file.size()))) {}

  std::uint64_t position() const noexcept { return buffer_at_ + used_; }
  std::uint64_t left() const noexcept { return file_.size() - position(); }
  /// Throws format_error: the file, `message`, and the place.
  [[noreturn]] void fail(const std::string& message) const {
    throw format_error(file_.path().string() + ": " + message + " (at byte " + std::to_string(position()) + " of " +
                       std::to_string(file_.size()) + ")");
  }
  /// Throws unless `count` things of at least `bytes` each can follow.
  void check(std::uint64_t count, std::uint64_t bytes, const std::string& what) const {
    if (count > left() / bytes) fail("truncated: " + std::to_string(count) + " " + what + " are announced");
  }
  /// Fills `bytes` with the next ones.
  void take(std::span<std::byte> bytes) {
    check(bytes.size(), 1, "bytes");
    for (std::size_t done = 0; done < bytes.size();) {
      if (used_ == filled_) {
        buffer_at_ += used_, used_ = 0;
        filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), file_.size() - buffer_at_));
        file_.read(buffer_at_, std::span(buffer_).first(filled_));
      }
      const std::size_t n = std::min(bytes.size() - done, filled_ - used_);
      std::memcpy(bytes.data() + done, buffer_.data() + used_, n);
      used_ += n, done += n;
    }
  }
  /// The next number.
  template <class T>
  T number() {
    T x;
    take(std::as_writable_bytes(std::span(&x, 1)));
    return x;
  }
  /// The next text, with its length in front.
  std::string text() {
    const auto length = number<std::uint64_t>();
    check(length, 1, "bytes of a text");
    std::string s(static_cast<std::size_t>(length), '\0');
    take(std::as_writable_bytes(std::span(s)));
    return s;
  }
  /// Goes on behind so many bytes.
  void skip(std::uint64_t bytes) {
    check(bytes, 1, "bytes");
    if (bytes <= filled_ - used_) {
      used_ += static_cast<std::size_t>(bytes);
    } else {
      buffer_at_ = position() + bytes, used_ = filled_ = 0;
    }
  }

 private:
  const gguf_source& file_;
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_at_ = 0;
  std::size_t used_ = 0, filled_ = 0;
};

/// Types of metadata values, by their numbers in the file.
enum class gguf_type : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// An element type of tensors: `elements` numbers fill a block of `bytes`.
struct gguf_block {
  std::uint32_t type;
  std::string_view name;
  std::uint64_t elements, bytes;
  bool readable;  ///< checkpoint::read_gguf_blocks() knows it
};

/// The element types of ggml that files have, by their numbers.
inline constexpr gguf_block gguf_blocks[] = {
    {0, "F32", 1, 4, true},          {1, "F16", 1, 2, true},          {2, "Q4_0", 32, 18, true},
    {3, "Q4_1", 32, 20, true},       {6, "Q5_0", 32, 22, true},       {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},       {9, "Q8_1", 32, 36, false},      {10, "Q2_K", 256, 84, false},
    {11, "Q3_K", 256, 110, false},   {12, "Q4_K", 256, 144, true},    {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},    {15, "Q8_K", 256, 292, false},   {16, "IQ2_XXS", 256, 66, false},
    {17, "IQ2_XS", 256, 74, false},  {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, false},   {21, "IQ3_S", 256, 110, false},  {22, "IQ2_S", 256, 82, false},
    {23, "IQ4_XS", 256, 136, false}, {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},        {28, "F64", 1, 8, false},
    {29, "IQ1_M", 256, 56, false},   {30, "BF16", 1, 2, true},        {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, false},
};

/// The bytes of a metadata value; 0 for texts and lists.
constexpr std::uint64_t bytes_of(gguf_type type) noexcept {
  constexpr std::array<std::uint8_t, 13> bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[static_cast<std::size_t>(type)];
}

}  // namespace text
RLCORE_END
