// Cache of preprocessed images; images as data URIs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/image/decode.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/image/processor.hpp"
#include "rlcore/image/resample.hpp"
#include "rlcore/text/base64.hpp"

RLCORE_BEGIN
namespace data {

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

}  // namespace data
RLCORE_END
#endif
