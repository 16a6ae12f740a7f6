// smart_resize: the image size for the vision tower.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace image {

/// Height and width in pixels.
struct size {
  std::int64_t height = 0, width = 0;
  bool operator==(const size&) const = default;
};

/// Limits of the area in pixels, and the factor of both sides (patch_size * merge_size).
struct size_limits {
  std::int64_t factor = 28, min_pixels = 3136, max_pixels = 1'003'520;
};

/// The sides as multiples of `factor` whose area lies within the limits and whose ratio is nearly the image's:
/// transformers' smart_resize. Both sides are rounded, halves to even; an area beyond a limit scales both by the root
/// of its ratio to the limit, rounded inwards. Throws format_error for a ratio above 200.
inline size smart_resize(size from, const size_limits& limits) {
  const auto h = static_cast<double>(from.height), w = static_cast<double>(from.width);
  if (std::max(h, w) / std::min(h, w) > 200)
    throw format_error("an image of " + std::to_string(from.width) + " x " + std::to_string(from.height) +
                       " pixels; a side may be at most 200 times the other");
  const auto f = static_cast<double>(limits.factor);
  const auto multiple = [&](double parts) { return static_cast<std::int64_t>(parts) * limits.factor; };
  const auto area = [](size s) { return s.height * s.width; };
  size to{multiple(std::nearbyint(h / f)), multiple(std::nearbyint(w / f))};
  if (area(to) > limits.max_pixels) {
    const double shrink = std::sqrt(h * w / static_cast<double>(limits.max_pixels));
    to = {std::max(limits.factor, multiple(std::floor(h / shrink / f))),
          std::max(limits.factor, multiple(std::floor(w / shrink / f)))};
  } else if (area(to) < limits.min_pixels) {
    const double grow = std::sqrt(static_cast<double>(limits.min_pixels) / (h * w));
    to = {multiple(std::ceil(h * grow / f)), multiple(std::ceil(w * grow / f))};
  }
  return to;
}

}  // namespace image
RLCORE_END
