// Settings of the image processor, and the image sizes and token counts that follow from them.
#pragma once

#include <cstdint>

#include "rlcore/image/decode_settings.hpp"
#include "rlcore/image/patches.hpp"
#include "rlcore/image/resample.hpp"
#include "rlcore/image/smart_resize.hpp"

RLCORE_BEGIN
namespace image {

/// Settings of a processor; the defaults are those of transformers' Qwen2VLImageProcessor.
struct processor_settings {
  std::int64_t min_pixels = 3136, max_pixels = 1'003'520;
  patch_shape shape{};
  normalisation normalise{};
  resampling resample = resampling::torchvision;
  decode_settings decode{};
};

/// The resized size of an image for the vision tower. Throws format_error when one side is over 200 times the other.
inline size target_size(size from, const processor_settings& settings) {
  const auto factor = static_cast<std::int64_t>(settings.shape.patch * settings.shape.merge);
  return smart_resize(from, {factor, settings.min_pixels, settings.max_pixels});
}

/// Token count of an image: one for every merge x merge patches of its target size. Throws what target_size() throws.
inline std::int64_t token_count(size from, const processor_settings& settings) {
  const size to = target_size(from, settings);
  const auto cell = static_cast<std::int64_t>(settings.shape.patch * settings.shape.merge);
  return to.height / cell * (to.width / cell);
}

}  // namespace image
RLCORE_END
