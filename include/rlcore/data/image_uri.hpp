// Data URI of an image, downscaled for HTML reports.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/image/decode.hpp"
#include "rlcore/image/encode.hpp"
#include "rlcore/image/resample.hpp"
#include "rlcore/text/base64.hpp"

RLCORE_BEGIN
namespace data {

inline constexpr const char* png_uri_begins = "data:image/png;base64,";

/// The image as a PNG in a data URI, downscaled if a side is longer than `longest` pixels. Throws data_error that
/// begins with the image's name if it cannot be decoded.
inline std::string image_uri(const image_file& file, const image::decode_settings& settings = {},
                             std::int64_t longest = 240) {
  try {
    image::pixels p = image::decode(file.bytes.empty() ? read_image_bytes(file.path, file.name) : file.bytes, settings);
    const auto height = static_cast<std::int64_t>(p.height), width = static_cast<std::int64_t>(p.width);
    if (const std::int64_t side = std::max(height, width); side > longest)
      p = image::resize(
          p, {std::max<std::int64_t>(1, height * longest / side), std::max<std::int64_t>(1, width * longest / side)},
          image::resampling::torchvision);
    return png_uri_begins + text::to_base64(image::encode_png(p));
  } catch (const format_error& e) {
    throw data_error(file.name + ": " + e.what());
  }
}

}  // namespace data
RLCORE_END
