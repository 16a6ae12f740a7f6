// Image decoding: PNG, JPEG and WebP. The definitions include libpng, libjpeg and libwebp: with RLCORE_COMPILED they
// are in src/images.cpp.
#pragma once

#include <string>

#include "rlcore/core/error.hpp"
#include "rlcore/image/header.hpp"
#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

/// Decodes a PNG to the pixels of Pillow's convert("RGB"): grey and palettes become colours, ancillary chunks (gamma,
/// profiles, a palette's opacity) are ignored. Throws format_error for a file that is damaged, cut off, animated, of
/// 16 bits, or too large.
pixels decode_png(encoded bytes, const decode_settings& settings = {});

/// Decodes a JPEG: accurate DCT, smooth chroma upsampling, no EXIF rotation, all as Pillow does. Throws format_error
/// for a file that is damaged, cut off, CMYK, of 12 bits, or too large.
pixels decode_jpeg(encoded bytes, const decode_settings& settings = {});

/// Decodes a WebP, lossy or lossless, as Pillow does. Throws format_error for a file that is damaged, cut off,
/// animated, or too large. Only a build with libwebp has it.
pixels decode_webp(encoded bytes, const decode_settings& settings = {});

/// Decodes a PNG, JPEG or WebP file. Throws format_error, without the file's name, for anything else.
inline pixels decode(encoded bytes, [[maybe_unused]] const decode_settings& settings = {}) {
  const std::string format = format_of(bytes);
  if constexpr (has_webp)
    if (format == "WebP") return decode_webp(bytes, settings);
  if (format != "PNG" && format != "JPEG") throw unknown_format(format);
#ifdef RLCORE_HAS_IMAGES
  return format == "PNG" ? decode_png(bytes, settings) : decode_jpeg(bytes, settings);
#else
  throw format_error(no_images_message);
#endif
}

}  // namespace image
RLCORE_END

#if defined(RLCORE_HAS_IMAGES) && !defined(RLCORE_COMPILED)
#include "rlcore/image/decode_jpeg.hpp"
#include "rlcore/image/decode_png.hpp"
#endif
