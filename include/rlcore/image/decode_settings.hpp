// Settings of the image decoders.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace image {

/// Handling of a PNG's alpha channel: `drop` keeps the colours as stored (Pillow's convert("RGB")), `white` composites
/// them on white (qwen-vl-utils).
enum class alpha { drop, white };

/// Decoding options, and the size limit.
struct decode_settings {
  alpha opacity = alpha::drop;
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
RLCORE_END
