// The ZIP archive that torch.save writes: records are stored, not compressed, and can be read in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/crc32.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// One file inside the archive.
struct zip_record {
  std::uint64_t begin = 0, size = 0;  ///< its bytes in the archive
  std::uint32_t crc = 0;
};

/// An open archive whose directory has been checked against the size of the file. Names are without the folder that
/// torch puts around all records. Reading is thread safe.
class torch_zip {
 public:
  /// Throws file_error, or format_error if the file is no archive of stored records.
  explicit torch_zip(const std::filesystem::path& path) : file_(path) { read_directory(); }

  const std::filesystem::path& path() const noexcept { return file_.path(); }
  /// Does the archive have a record of this name?
  bool contains(std::string_view name) const { return records_.find(name) != records_.end(); }
  const std::map<std::string, zip_record, std::less<>>& records() const noexcept { return records_; }
  /// Throws format_error when the archive has no such record.
  const zip_record& record(std::string_view name) const {
    const auto at = records_.find(name);
    if (at == records_.end()) fail("no record '" + data::printable(name) + "'; expected a file written by torch.save");
    return at->second;
  }
  /// Reads bytes of a record from `first` on.
  void read(const zip_record& record, std::uint64_t first, std::span<std::byte> bytes) const {
    if (first > record.size || bytes.size() > record.size - first) fail("a tensor reaches past the end of its storage");
    file_.read(record.begin + first, bytes);
  }
  /// Reads a whole small record and verifies its checksum.
  std::string text(std::string_view name, std::uint64_t limit) const;
  /// Throws format_error with the path in front of the message.
  [[noreturn]] void fail(const std::string& message) const { throw format_error(path().string() + ": " + message); }

 private:
  /// Little-endian numbers out of a piece of the file that has been read as a whole.
  struct fields {
    std::span<const std::byte> bytes;
    std::uint64_t at(std::size_t offset, std::size_t size) const {
      std::uint64_t x = 0;
      for (std::size_t i = 0; i < size; ++i) x |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
      return x;
    }
  };
  std::vector<std::byte> piece(std::uint64_t position, std::uint64_t size) const;

  void read_directory();

  /// One entry of the directory; returns where the next begins.
  std::size_t read_entry(std::span<const std::byte> directory, std::size_t at, std::uint64_t data_end);

  data::input_file file_;
  std::map<std::string, zip_record, std::less<>> records_;
};

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

RLCORE_INLINE std::string torch_zip::text(std::string_view name, std::uint64_t limit) const {
  const zip_record& r = record(name);
  if (r.size > limit)
    fail("record '" + std::string(name) + "' has " + std::to_string(r.size) + " bytes; at most " +
         std::to_string(limit) + " are read");
  std::string bytes(static_cast<std::size_t>(r.size), '\0');
  file_.read(r.begin, std::as_writable_bytes(std::span(bytes)));
  if (crc32(std::as_bytes(std::span(bytes))) != r.crc)
    fail("damaged: record '" + std::string(name) + "' has another CRC-32");
  return bytes;
}

RLCORE_INLINE std::vector<std::byte> torch_zip::piece(std::uint64_t position, std::uint64_t size) const {
  if (position > file_.size() || size > file_.size() - position) fail("truncated: its directory reaches past its end");
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  file_.read(position, bytes);
  return bytes;
}

RLCORE_INLINE void torch_zip::read_directory() {
  constexpr std::uint64_t end_size = 22, longest_comment = 65535, locator_size = 20, directory_limit = 1u << 30;
  const std::uint64_t tail = std::min(file_.size(), end_size + longest_comment);
  const std::vector<std::byte> bytes = piece(file_.size() - tail, tail);
  const fields f{bytes};
  std::uint64_t end = 0;
  bool found = false;
  for (std::size_t i = bytes.size() < end_size ? 0 : bytes.size() - end_size + 1; i-- > 0 && !found;)
    if (f.at(i, 4) == 0x06054b50 && i + end_size + f.at(i + 20, 2) == bytes.size()) {
      end = i;
      found = true;
    }
  if (!found)
    fail(
        "not a file of torch.save, or truncated: no ZIP directory at its end (files older than torch 1.6 are not "
        "read)");
  std::uint64_t count = f.at(end + 10, 2), size = f.at(end + 12, 4), begin = f.at(end + 16, 4);
  const std::uint64_t position = file_.size() - tail + end;
  if (position >= locator_size) {  // sizes beyond 32 bits stand in a record of their own
    const std::vector<std::byte> locator_bytes = piece(position - locator_size, locator_size);
    const fields locator{locator_bytes};
    if (locator.at(0, 4) == 0x07064b50) {
      const std::vector<std::byte> large_bytes = piece(locator.at(8, 8), 56);
      const fields large{large_bytes};
      if (large.at(0, 4) != 0x06064b50) fail("damaged: its ZIP64 directory is not where it is said to be");
      count = large.at(32, 8);
      size = large.at(40, 8);
      begin = large.at(48, 8);
    }
  }
  if (size > directory_limit) fail("damaged: a directory of " + std::to_string(size) + " bytes");
  const std::vector<std::byte> directory = piece(begin, size);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < count; ++i) at = read_entry(directory, at, begin);
}

RLCORE_INLINE std::size_t torch_zip::read_entry(std::span<const std::byte> directory, std::size_t at,
                                                std::uint64_t data_end) {
  constexpr std::size_t entry_size = 46, local_size = 30;
  if (directory.size() - at < entry_size) fail("damaged: its ZIP directory is shorter than its entries");
  const fields f{directory.subspan(at)};
  if (f.at(0, 4) != 0x02014b50) fail("damaged: its ZIP directory has an entry without a signature");
  const std::size_t name_size = f.at(28, 2), extra_size = f.at(30, 2), comment_size = f.at(32, 2);
  const std::size_t next = entry_size + name_size + extra_size + comment_size;
  if (f.bytes.size() < next) fail("damaged: its ZIP directory is shorter than its entries");
  std::string name(reinterpret_cast<const char*>(f.bytes.data()) + entry_size, name_size);
  std::uint64_t stored = f.at(20, 4), size = f.at(24, 4), local = f.at(42, 4);
  for (std::size_t e = entry_size + name_size, end = e + extra_size; e + 4 <= end;) {
    const std::size_t length = f.at(e + 2, 2);
    if (length > end - e - 4) fail("damaged: record '" + data::printable(name) + "' has a broken extra field");
    std::size_t value = e + 4;
    if (f.at(e, 2) == 1)  // ZIP64: those of the three sizes that did not fit, in this order
      for (std::uint64_t* x : {&size, &stored, &local})
        if (*x == 0xFFFFFFFF && value + 8 <= e + 4 + length) {
          *x = f.at(value, 8);
          value += 8;
        }
    e += 4 + length;
  }
  const std::string where = "record '" + data::printable(name) + "' ";
  if (f.at(10, 2) != 0 || stored != size || (f.at(8, 2) & 1) != 0)
    fail(where + "is compressed or encrypted; torch.save only stores");
  if (local > data_end || data_end - local < local_size) fail("damaged: " + where + "begins past the data");
  const std::vector<std::byte> header_bytes = piece(local, local_size);
  const fields header{header_bytes};
  if (header.at(0, 4) != 0x04034b50) fail("damaged: " + where + "is not where the directory says");
  const std::uint64_t begin = local + local_size + header.at(26, 2) + header.at(28, 2);
  if (begin > data_end || size > data_end - begin) fail("truncated: " + where + "reaches past the data");
  if (const std::size_t slash = name.find('/'); slash != std::string::npos) name.erase(0, slash + 1);
  if (!records_.emplace(name, zip_record{begin, size, static_cast<std::uint32_t>(f.at(16, 4))}).second)
    fail(where + "is there twice");
  return at + next;
}

}  // namespace checkpoint
RLCORE_END
#endif
