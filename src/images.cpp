// PNG and JPEG through libpng and libjpeg (behind rlcore::data).
#include "rlcore/image/decode_jpeg.hpp"
#include "rlcore/image/decode_png.hpp"
#include "rlcore/image/encode_png.hpp"
