// What decoders of pictures are told.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace image {

/// What becomes of a PNG's opacity: `drop` keeps the colours as they are stored (Pillow's convert("RGB")), `white` lays
/// them on a white ground (qwen-vl-utils).
enum class alpha { drop, white };

/// How a picture is decoded, and how large it may be.
struct decode_settings {
  alpha opacity = alpha::drop;
  std::uint64_t max_pixels = 89'478'485;  ///< Pillow's limit: three bytes for each pixel are a quarter of a GiB
};

/// The bytes of a file, as yet undecoded.
using encoded = std::span<const unsigned char>;

/// Throws format_error unless this many pixels may be held; a decoder asks when it has read the header, before it takes
/// memory.
inline void check_size(std::uint64_t height, std::uint64_t width, const decode_settings& settings) {
  if (height == 0 || width == 0) throw format_error("an image without pixels");
  if (height > settings.max_pixels / width)
    throw format_error("an image of " + std::to_string(width) + " x " + std::to_string(height) + " pixels; at most " +
                       std::to_string(settings.max_pixels) + " are decoded");
}

}  // namespace image
RLCORE_END
