// Images through libpng, libjpeg and, where it is there, libwebp (behind rlcore::data).
#define RLCORE_SOURCE_IMAGES
#include "rlcore/image/decode_jpeg.hpp"
#include "rlcore/image/decode_png.hpp"
#include "rlcore/image/encode.hpp"
#ifdef RLCORE_HAS_WEBP
#include "rlcore/image/decode_webp.hpp"
#endif
