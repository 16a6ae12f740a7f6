// Image processor: settings; decoding, resizing, normalising and cutting into patches for the vision tower.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/image/decode.hpp"
#include "rlcore/image/pixels.hpp"
#include "rlcore/image/resample.hpp"

RLCORE_BEGIN
namespace image {

/// Normalisation of 0...255 to float, per colour.
struct normalisation {
  std::array<double, 3> mean = {0.48145466, 0.4578275, 0.40821073}, deviation = {0.26862954, 0.26130258, 0.27577711};
  double rescale = 0.00392156862745098;
};

/// The 256 floats of each colour. torchvision: (u - mean/rescale) / (deviation/rescale), all in float. Pillow:
/// (float(u * rescale) - mean) / deviation. They differ by 2.4e-7 at most.
inline std::array<std::array<float, 256>, 3> normalised_values(const normalisation& by, resampling as) {
  std::array<std::array<float, 256>, 3> values;
  for (std::size_t c = 0; c < 3; ++c) {
    const auto mean = static_cast<float>(by.mean[c]), deviation = static_cast<float>(by.deviation[c]);
    const auto inverse = static_cast<float>(1 / by.rescale);
    for (std::size_t u = 0; u < 256; ++u)
      values[c][u] = as == resampling::torchvision
                         ? (static_cast<float>(u) - mean * inverse) / (deviation * inverse)
                         : (static_cast<float>(static_cast<double>(u) * by.rescale) - mean) / deviation;
  }
  return values;
}

/// Patch layout: squares of `patch` pixels, where `merge` x `merge` patches become one token; an image is a video of
/// `frames` equal frames.
struct patch_shape {
  std::size_t patch = 14, merge = 2, frames = 2;
  std::size_t row() const noexcept { return 3 * frames * patch * patch; }
};

/// An image as rows of [colour][frame][y][x]. The `merge` x `merge` patches of a token are adjacent; tokens are in
/// raster order.
struct patches {
  std::int64_t rows = 0, columns = 0;  ///< of patches in the image
  std::vector<float> values;           ///< [rows * columns, patch_shape::row()]
  bool operator==(const patches&) const = default;
};

/// Cuts an image into patches; its sides are multiples of patch * merge.
inline patches cut(const pixels& image, const patch_shape& shape, const std::array<std::array<float, 256>, 3>& values) {
  const std::size_t side = shape.patch, cell = side * shape.merge;
  patches result{static_cast<std::int64_t>(image.height / side), static_cast<std::int64_t>(image.width / side), {}};
  result.values.reserve(image.height / side * (image.width / side) * shape.row());
  std::vector<float> row(shape.row());
  const auto one_patch = [&](std::size_t top, std::size_t left) {
    float* out = row.data();
    for (std::size_t c = 0; c < 3; ++c) {
      const float* const first = out;
      for (std::size_t y = 0; y < side; ++y) {
        const std::uint8_t* const in = image.rgb.data() + 3 * ((top + y) * image.width + left) + c;
        for (std::size_t x = 0; x < side; ++x) *out++ = values[c][in[3 * x]];
      }
      for (std::size_t frame = 1; frame < shape.frames; ++frame) out = std::copy_n(first, side * side, out);
    }
    result.values.insert(result.values.end(), row.begin(), row.end());
  };
  for (std::size_t top = 0; top < image.height; top += cell)
    for (std::size_t left = 0; left < image.width; left += cell)
      for (std::size_t y = 0; y < cell; y += side)
        for (std::size_t x = 0; x < cell; x += side) one_patch(top + y, left + x);
  return result;
}

/// Settings of a processor; the defaults are those of transformers' Qwen2VLImageProcessor.
struct processor_settings {
  std::int64_t min_pixels = 3136, max_pixels = 1'003'520;
  patch_shape shape{};
  normalisation normalise{};
  resampling resample = resampling::torchvision;
  decode_settings decode{};
};

/// The resized size of an image for the vision tower. Throws format_error when one side is over 200 times the other.
inline size target_size(size from, const processor_settings& settings) {
  const auto factor = static_cast<std::int64_t>(settings.shape.patch * settings.shape.merge);
  return smart_resize(from, {factor, settings.min_pixels, settings.max_pixels});
}

/// Token count of an image: one for every merge x merge patches of its target size. Throws what target_size() throws.
inline std::int64_t token_count(size from, const processor_settings& settings) {
  const size to = target_size(from, settings);
  const auto cell = static_cast<std::int64_t>(settings.shape.patch * settings.shape.merge);
  return to.height / cell * (to.width / cell);
}

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
  patches operator()(const pixels& image) const {
    const size to = target({static_cast<std::int64_t>(image.height), static_cast<std::int64_t>(image.width)});
    return cut(resize(image, to, settings_.resample), settings_.shape, values_);
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
