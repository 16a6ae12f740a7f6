// WebP decoding by libwebp.
#pragma once

#include <webp/decode.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/image/pixels.hpp"

RLCORE_BEGIN
namespace image {

namespace detail {

/// The header of a WebP. Throws format_error for headers that decode_webp() refuses.
inline WebPBitstreamFeatures read_webp_header(encoded bytes, const decode_settings& settings) {
  WebPBitstreamFeatures found;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &found) != VP8_STATUS_OK)
    throw format_error("a damaged WebP: no header can be read");
  check_size(static_cast<std::uint64_t>(found.height), static_cast<std::uint64_t>(found.width), settings);
  if (found.has_animation != 0) throw format_error("an animated WebP; expected one image");
  return found;
}

}  // namespace detail

RLCORE_INLINE size read_webp_size(encoded bytes, const decode_settings& settings) {
  const WebPBitstreamFeatures found = detail::read_webp_header(bytes, settings);
  return {found.height, found.width};
}

RLCORE_INLINE pixels decode_webp(encoded bytes, const decode_settings& settings) {
  const WebPBitstreamFeatures found = detail::read_webp_header(bytes, settings);
  const bool on_white = found.has_alpha != 0 && settings.opacity == alpha::white;
  const auto height = static_cast<std::size_t>(found.height), width = static_cast<std::size_t>(found.width);
  const std::size_t row = width * (on_white ? 4 : 3);
  pixels result{height, width, std::vector<std::uint8_t>(height * row)};
  const auto into = on_white ? WebPDecodeRGBAInto : WebPDecodeRGBInto;
  if (into(bytes.data(), bytes.size(), result.rgb.data(), result.rgb.size(), static_cast<int>(row)) == nullptr)
    throw format_error("a damaged WebP");
  if (on_white) result.rgb = detail::on_white(result.rgb);
  return result;
}

}  // namespace image
RLCORE_END
