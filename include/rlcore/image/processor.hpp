// Image processor: decoding, resizing, normalising and cutting into patches for the vision tower.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rlcore/image/decode.hpp"
#include "rlcore/image/pixels.hpp"
#include "rlcore/image/processor_settings.hpp"
#include "rlcore/image/resample.hpp"

RLCORE_BEGIN
namespace image {

/// Turns files into patches. The same bytes give the same floats on every machine: all arithmetic is in integers, and
/// one table per colour maps them to floats. Thread-safe.
class processor {
 public:
  /// Settings are not checked: patch_size and merge_size must be the model's.
  explicit processor(const processor_settings& settings = {})
      : settings_(settings), values_(normalised_values(settings.normalise, settings.resample)) {}

  const processor_settings& settings() const noexcept { return settings_; }

  /// The resized size of an image for the vision tower. Throws format_error when one side is over 200 times the other.
  size target(size from) const { return target_size(from, settings_); }

  /// Resizes an image to its target size and cuts it into patches. Throws what target() throws.
  patches operator()(const pixels& picture) const {
    const size to = target({static_cast<std::int64_t>(picture.height), static_cast<std::int64_t>(picture.width)});
    return cut(resize(picture, to, settings_.resample), settings_.shape, values_);
  }

  /// Decodes the file first. Throws format_error, without the file's name, for files that decode() refuses.
  patches operator()(encoded bytes) const { return (*this)(decode(bytes, settings_.decode)); }

  /// Token count of an image.
  std::int64_t tokens(const patches& of) const noexcept {
    return of.rows * of.columns / static_cast<std::int64_t>(settings_.shape.merge * settings_.shape.merge);
  }

 private:
  processor_settings settings_;
  std::array<std::array<float, 256>, 3> values_;
};

}  // namespace image
RLCORE_END
