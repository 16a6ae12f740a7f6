// Image processor settings of a model, with command-line overrides.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/family/families.hpp"
#include "rlcore/telemetry/console.hpp"

RLCORE_BEGIN
namespace trainer {

/// For a model without a vision tower, settings that reject rows with images. Reports what preprocessor_config.json
/// lacks. Throws format_error for a file that does not match the tower, config_error if no size fits.
data::image_settings model_images(const image_options& asked, const nn::config& model,
                                  const std::filesystem::path& folder);

/// "images 3136 to 1003520 pixels each, resampled as torchvision does it (...)": the settings in use, for the log.
/// Empty without images.
std::string image_text(const data::image_settings& images);

/// "; 480 of them have pictures, the largest of 1316 x 728 pixels and 1222 tokens (20 rows with pictures left out)".
/// Empty without images.
std::string image_text(const data::image_counts& counts);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAINING)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE data::image_settings model_images(const image_options& asked, const nn::config& model,
                                                const std::filesystem::path& folder) {
  data::image_settings images{.image_key = asked.image_key,
                              .video_key = asked.video_key,
                              .model = folder.string(),
                              .most = asked.most,
                              .strip = asked.strip};
  if (!model.vision) return images;
  const checkpoint::model_processor own = checkpoint::read_processor(folder, model);
  if (!own.note.empty()) say("note: %s\n", own.note.c_str());
  images.token = model.image_token_id, images.video = model.video_token_id;
  const nn::vision_traits& words = *model.model->vision;
  images.written = std::string(words.vision_start).append(words.image_token).append(words.vision_end);
  images.processor = asked.of(own.settings);
  images.cache = std::make_shared<data::image_cache>(image::processor(*images.processor), asked.cache_bytes);
  return images;
}

RLCORE_INLINE std::string image_text(const data::image_settings& images) {
  if (!images.processor) return "";
  const bool pillow = images.processor->resample == image::resampling::pillow;
  return "images " + std::to_string(images.processor->min_pixels) + " to " +
         std::to_string(images.processor->max_pixels) + " pixels each, resampled as " +
         (pillow ? "Pillow" : "torchvision") + " does it (rlcore.image_resampling)" +
         (images.processor->decode.opacity == image::alpha::white ? ", on white (rlcore.image_alpha)" : "");
}

RLCORE_INLINE std::string image_text(const data::image_counts& counts) {
  if (counts.rows == 0) return "";
  std::string text = "; " + std::to_string(counts.rows - counts.left_out) + " of them have pictures";
  if (counts.most_tokens > 0)
    text += ", the largest of " + std::to_string(counts.largest.width) + " x " + std::to_string(counts.largest.height) +
            " pixels and " + std::to_string(counts.most_tokens) + " tokens";
  if (counts.left_out > 0) text += " (" + std::to_string(counts.left_out) + " rows with pictures are left out)";
  return text;
}

}  // namespace trainer
RLCORE_END
#endif
