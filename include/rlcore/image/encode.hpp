// From pixels to the bytes of a file. The definition brings in libpng: with RLCORE_COMPILED it is that of
// src/images.cpp.
#pragma once

#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

/// A PNG of 8 bits a channel without opacity; decode() gives the same pixels back. Throws format_error for a picture
/// without pixels, or of more than 2^31 - 1 in a row or a column. Needs the component `images`.
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
