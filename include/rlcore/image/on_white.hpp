// Alpha compositing on a white background.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace image::detail {

/// RGBA on white, rounded as Pillow's paste() rounds: (255 (255 - a) + c a) / 255 to the nearest.
inline std::vector<std::uint8_t> on_white(const std::vector<std::uint8_t>& rgba) {
  std::vector<std::uint8_t> rgb(rgba.size() / 4 * 3);
  for (std::size_t i = 0; i < rgba.size() / 4; ++i)
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned opacity = rgba[4 * i + 3], sum = 255 * (255 - opacity) + rgba[4 * i + c] * opacity + 128;
      rgb[3 * i + c] = static_cast<std::uint8_t>(((sum >> 8) + sum) >> 8);
    }
  return rgb;
}

}  // namespace image::detail
RLCORE_END
