// The images that tests/reference/image.py draws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>

#include "rlcore/checkpoint/crc32.hpp"
#include "rlcore/image/pixels.hpp"

namespace rlcore::test {

/// image.json.
inline const nlohmann::json& image_reference() {
  static const auto json = nlohmann::json::parse(std::ifstream(RLCORE_REFERENCE_DIR "/image.json"));
  return json;
}

enum class drawing { noise, smooth, two_levels };

/// draw() of image.py.
inline image::pixels draw(drawing kind, std::uint32_t seed, std::size_t height, std::size_t width) {
  image::pixels image{height, width, {}};
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        auto mixed = static_cast<std::uint32_t>(((y * width + x) * 3 + c) * 2654435761u + seed * 40503ull);
        mixed = static_cast<std::uint32_t>((mixed ^ (mixed >> 15)) * 2246822519ull);
        const std::uint32_t noise = mixed >> 24;
        const auto smooth = static_cast<std::uint32_t>((y * 3 + x * 2 + c * 40 + seed) / 2 % 256);
        image.rgb.push_back(static_cast<std::uint8_t>(kind == drawing::smooth  ? smooth
                                                      : kind == drawing::noise ? noise
                                                                               : noise / 128 * 255));
      }
  return image;
}

/// zlib.crc32 of the bytes of a contiguous range.
std::uint32_t crc(const auto& values) { return checkpoint::crc32(std::as_bytes(std::span(values))); }

}  // namespace rlcore::test
