// Encoded image file of a row (data URIs too), and the cache of preprocessed images.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/image/decode.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/image/header.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/image/resample.hpp"
#include "rlcore/text/base64.hpp"

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

/// Patches are many times larger than their file: 4704 bytes for each 14 x 14 pixels. Ownership is shared by all
/// pointers; the cache keeps the most recently used ones, up to its limit, so that the samples of a prompt and the
/// micro-batches of a step decode an image once. May be used by several threads.
class image_cache {
 public:
  using pointer = std::shared_ptr<const image::patches>;

  /// Keeps at most `bytes` of patches.
  explicit image_cache(const image::processor& processor, std::size_t bytes = std::size_t{512} << 20)
      : processor_(processor), limit_(bytes) {}

  const image::processor& processor() const noexcept { return processor_; }

  /// The patches of an image. Throws data_error that begins with its name if it cannot be decoded or its file has
  /// changed.
  pointer operator()(const image_file& file);

  /// Maximum bytes of patches in the cache.
  std::size_t limit() const noexcept { return limit_; }
  /// Bytes of patches in the cache.
  std::size_t bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return held_;
  }

 private:
  static std::size_t size_of(const pointer& p) noexcept { return p->values.size() * sizeof(float); }

  image::patches decode(const image_file& file) const;

  void keep(const content_hash& hash, const pointer& made);

  using entry = std::pair<content_hash, pointer>;

  image::processor processor_;
  std::size_t limit_, held_ = 0;
  std::list<entry> kept_;  ///< most recently used first
  std::map<content_hash, std::list<entry>::iterator> places_;
  mutable std::mutex mutex_;
};

inline constexpr const char* png_uri_begins = "data:image/png;base64,";

/// The image as a PNG in a data URI, downscaled if a side is longer than `longest` pixels. Throws data_error that
/// begins with the image's name if it cannot be decoded.
inline std::string image_uri(const image_file& file, const image::decode_settings& settings = {},
                             std::int64_t longest = 240) {
  try {
    image::pixels p = image::decode(file.bytes.empty() ? read_image_bytes(file.path, file.name) : file.bytes, settings);
    const auto height = static_cast<std::int64_t>(p.height), width = static_cast<std::int64_t>(p.width);
    if (const std::int64_t side = std::max(height, width); side > longest)
      p = image::resize(
          p, {std::max<std::int64_t>(1, height * longest / side), std::max<std::int64_t>(1, width * longest / side)},
          image::resampling::torchvision);
    return png_uri_begins + text::to_base64(image::encode_png(p));
  } catch (const format_error& e) {
    throw data_error(file.name + ": " + e.what());
  }
}

}  // namespace data
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DATA)
RLCORE_BEGIN
namespace data {

RLCORE_INLINE auto image_cache::operator()(const image_file& file) -> pointer {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (const auto found = places_.find(file.hash); found != places_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      return kept_.front().second;
    }
  }
  pointer made = std::make_shared<const image::patches>(decode(file));
  keep(file.hash, made);
  return made;
}

RLCORE_INLINE image::patches image_cache::decode(const image_file& file) const {
  try {
    if (!file.bytes.empty()) return processor_(file.bytes);
    const std::vector<unsigned char> bytes = read_image_bytes(file.path, file.name);
    if (hash_of(bytes) != file.hash) throw format_error("the file has changed since the rows were read");
    return processor_(bytes);
  } catch (const format_error& e) {
    throw data_error(file.name + ": " + e.what());
  }
}

RLCORE_INLINE void image_cache::keep(const content_hash& hash, const pointer& made) {
  if (size_of(made) > limit_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (places_.contains(hash)) return;  // by another thread, meanwhile
  kept_.emplace_front(hash, made);
  places_.emplace(hash, kept_.begin());
  held_ += size_of(made);
  while (held_ > limit_) {
    held_ -= size_of(kept_.back().second);
    places_.erase(kept_.back().first);
    kept_.pop_back();
  }
}

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
