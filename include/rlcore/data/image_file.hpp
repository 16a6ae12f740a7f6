// Encoded image file of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/image/header.hpp"

RLCORE_BEGIN
namespace data {

/// A 128-bit hash of a file's bytes. Guards against mistakes, not against forgery.
struct content_hash {
  std::uint64_t low = 0, high = 0;
  bool operator==(const content_hash&) const = default;
  auto operator<=>(const content_hash&) const = default;
};

/// Two hashes of 64 bits, of eight bytes at a time.
content_hash hash_of(std::span<const unsigned char> bytes) noexcept;

/// The bytes of an image file, or its path. image_cache decodes it on demand.
struct image_file {
  std::string name;                  ///< "train.jsonl: row 3: images[0] (a.png)", the beginning of messages
  std::vector<unsigned char> bytes;  ///< empty: read from the file at `path`
  std::filesystem::path path;
  image::size size;   ///< in pixels, from the header
  content_hash hash;  ///< of the bytes: equal files are one image
};

/// Images are shared by prompts, requests and micro-batches.
using image_pointer = std::shared_ptr<const image_file>;

/// The bytes of a file on the disk. Throws data_error.
std::vector<unsigned char> read_image_bytes(const std::filesystem::path& path, const std::string& name);

/// Reads the header. Bytes from a file `at` are not kept: they are read again when needed. Throws data_error "<name>:
/// ..." for headers that image::decode() refuses.
image_pointer make_image_file(std::string name, std::vector<unsigned char> bytes, std::filesystem::path at,
                              const image::decode_settings& decode);

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE content_hash hash_of(std::span<const unsigned char> bytes) noexcept {
  content_hash hash{0x9e3779b97f4a7c15u ^ bytes.size(), 0xc2b2ae3d27d4eb4fu};
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, i + sizeof word <= bytes.size() ? sizeof word : bytes.size() - i);
    hash.low = (hash.low ^ word) * 0xd6e8feb86659fd93u;
    hash.low ^= hash.low >> 32;
    hash.high = (hash.high ^ word) * 0x9fb21c651e98df25u;
    hash.high ^= hash.high >> 28;
  }
  return hash;
}

RLCORE_INLINE std::vector<unsigned char> read_image_bytes(const std::filesystem::path& path, const std::string& name) {
  try {
    const std::string content = read_file(path);
    return {content.begin(), content.end()};
  } catch (const file_error& e) {
    throw data_error(name + ": " + e.what());
  }
}

RLCORE_INLINE image_pointer make_image_file(std::string name, std::vector<unsigned char> bytes,
                                            std::filesystem::path at, const image::decode_settings& decode) {
  image_file file{std::move(name), {}, std::move(at), {}, hash_of(bytes)};
  try {
    file.size = image::read_size(bytes, decode);
  } catch (const format_error& e) {
    throw data_error(file.name + ": " + e.what());
  }
  if (file.path.empty()) file.bytes = std::move(bytes);
  return std::make_shared<const image_file>(std::move(file));
}

}  // namespace data
RLCORE_END
#endif
