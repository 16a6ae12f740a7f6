// PNG encoding. The definition includes libpng: with RLCORE_COMPILED it is in src/images.cpp.
#pragma once

#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

/// Encodes a PNG of 8 bits per channel without alpha; decode() returns the same pixels. Throws format_error for an
/// image without pixels, or with more than 2^31 - 1 in a row or a column. Needs the component `images`.
#ifdef RLCORE_HAS_IMAGES
std::vector<unsigned char> encode_png(const pixels& image);
#else
inline std::vector<unsigned char> encode_png(const pixels&) {
  throw format_error("this build writes no images; install libpng-dev and libjpeg-dev and build again");
}
#endif

}  // namespace image
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_IMAGES)
#ifdef RLCORE_HAS_IMAGES
#include <png.h>

#include <cstddef>
#include <limits>
#include <string>

RLCORE_BEGIN
namespace image {

RLCORE_INLINE std::vector<unsigned char> encode_png(const pixels& image) {
  constexpr std::size_t longest = std::numeric_limits<png_int_32>::max();
  if (image.width == 0 || image.height == 0 || image.width > longest || image.height > longest)
    throw format_error("no PNG has " + std::to_string(image.width) + " x " + std::to_string(image.height) + " pixels");
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  std::vector<unsigned char> bytes(PNG_IMAGE_PNG_SIZE_MAX(png));
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.rgb.data(), 0, nullptr) == 0)
    throw format_error(std::string("cannot write a PNG: ") + png.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace image
RLCORE_END
#endif
#endif
