// RGB image in memory: output of the decoders, input of the resampler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace image {

/// Colours of an image in raster order: red, green, blue from 0 to 255, height x width x 3 values.
struct pixels {
  std::size_t height = 0, width = 0;
  std::vector<std::uint8_t> rgb;

  bool operator==(const pixels&) const = default;
};

}  // namespace image
RLCORE_END
