// Pixels, their settings, and sizes of resized images.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace image {

/// Colours of an image in raster order: red, green, blue from 0 to 255, height x width x 3 values.
struct pixels {
  std::size_t height = 0, width = 0;
  std::vector<std::uint8_t> rgb;

  bool operator==(const pixels&) const = default;
};

/// Handling of an RGBA image's opacity: `white` composites the colours on white, as vLLM and qwen-vl-utils do (and so
/// verl's rows), `drop` keeps the colours as stored (Pillow's convert("RGB"), transformers' processor): what is
/// transparent is often stored as black.
enum class alpha { drop, white };

/// Decoding options, and the size limit.
struct decode_settings {
  alpha opacity = alpha::white;
  std::uint64_t max_pixels = 89'478'485;  ///< Pillow's limit: three bytes for each pixel are a quarter of a GiB
};

/// The bytes of an encoded file.
using encoded = std::span<const unsigned char>;

/// Throws format_error if the image has too many pixels; decoders call it after the header, before they allocate
/// memory.
inline void check_size(std::uint64_t height, std::uint64_t width, const decode_settings& settings) {
  if (height == 0 || width == 0) throw format_error("an image without pixels");
  if (height > settings.max_pixels / width)
    throw format_error("an image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels; at most " +
                       std::to_string(settings.max_pixels) + " are decoded");
}

}  // namespace image

namespace image::detail {

/// RGBA on white, rounded as Pillow's paste() rounds: (255 (255 - a) + c a) / 255 to the nearest.
inline std::vector<std::uint8_t> on_white(const std::vector<std::uint8_t>& rgba) {
  std::vector<std::uint8_t> rgb(rgba.size() / 4 * 3);
  for (std::size_t i = 0; i < rgba.size() / 4; ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned opacity = rgba[4 * i + 3], sum = 255 * (255 - opacity) + rgba[4 * i + c] * opacity + 128;
      rgb[3 * i + c] = static_cast<std::uint8_t>(((sum >> 8) + sum) >> 8);
    }
  return rgb;
}

}  // namespace image::detail

namespace image {

/// Height and width in pixels.
struct size {
  std::int64_t height = 0, width = 0;
  bool operator==(const size&) const = default;
};

/// Limits of the area in pixels, and the factor of both sides (patch_size * merge_size).
struct size_limits {
  std::int64_t factor = 28, min_pixels = 3136, max_pixels = 1'003'520;
};

/// The sides as multiples of `factor` whose area lies within the limits and whose ratio is nearly the image's:
/// transformers' smart_resize. Both sides are rounded, halves to even; an area beyond a limit scales both by the root
/// of its ratio to the limit, rounded inwards. Throws format_error for a ratio above 200.
inline size smart_resize(size from, const size_limits& limits) {
  const auto h = static_cast<double>(from.height), w = static_cast<double>(from.width);
  if (std::max(h, w) / std::min(h, w) > 200)
    throw format_error("an image of " + std::to_string(from.width) + " x " + std::to_string(from.height) +
                       " pixels; a side may be at most 200 times the other");
  const auto f = static_cast<double>(limits.factor);
  const auto multiple = [&](double parts) { return static_cast<std::int64_t>(parts) * limits.factor; };
  const auto area = [](size s) { return s.height * s.width; };
  size to{multiple(std::nearbyint(h / f)), multiple(std::nearbyint(w / f))};
  if (area(to) > limits.max_pixels) {
    const double shrink = std::sqrt(h * w / static_cast<double>(limits.max_pixels));
    to = {std::max(limits.factor, multiple(std::floor(h / shrink / f))),
          std::max(limits.factor, multiple(std::floor(w / shrink / f)))};
  } else if (area(to) < limits.min_pixels) {
    const double grow = std::sqrt(static_cast<double>(limits.min_pixels) / (h * w));
    to = {multiple(std::ceil(h * grow / f)), multiple(std::ceil(w * grow / f))};
  }
  return to;
}

}  // namespace image
RLCORE_END
