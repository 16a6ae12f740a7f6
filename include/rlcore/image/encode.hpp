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
std::vector<unsigned char> encode_png(const pixels& picture);
#else
inline std::vector<unsigned char> encode_png(const pixels&) {
  throw format_error("this build writes no images; install libpng-dev and libjpeg-dev and build again");
}
#endif

}  // namespace image
RLCORE_END

#if defined(RLCORE_HAS_IMAGES) && !defined(RLCORE_COMPILED)
#include "rlcore/image/encode_png.hpp"
#endif
