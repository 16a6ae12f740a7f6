// How a model takes the pictures of its rows: its processor, as the command line changes it.
#pragma once

#include <filesystem>
#include <string>

#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/text/tokenizer.hpp"

RLCORE_BEGIN
namespace trainer {

/// For a model without a vision tower, settings that refuse rows with pictures. Throws format_error if tokenizer and
/// config.json of `folder` do not agree on the token of a picture, config_error if no size fits.
inline data::image_settings model_images(const image_options& asked, const nn::config& model,
                                         const std::filesystem::path& folder, const text::tokenizer& tokenizer) {
  data::image_settings images{.image_key = asked.image_key,
                              .video_key = asked.video_key,
                              .model = folder.string(),
                              .most = asked.most,
                              .strip = asked.strip};
  if (!model.vision) return images;
  const auto token = tokenizer.id_of("<|image_pad|>");
  if (!token || *token != model.image_token_id)
    throw format_error((folder / "config.json").string() + ": image_token_id is " +
                       std::to_string(model.image_token_id) + ", but the tokenizer's <|image_pad|> is " +
                       (token ? std::to_string(*token) : std::string("missing")));
  images.token = *token;
  image::processor_settings settings;
  settings.shape = {static_cast<std::size_t>(model.vision->patch_size),
                    static_cast<std::size_t>(model.vision->spatial_merge_size),
                    static_cast<std::size_t>(model.vision->temporal_patch_size)};
  images.processor = asked.of(settings);
  return images;
}

/// "images at most 1003520 pixels each, by torchvision's resampling": what runs, for the log. Empty without pictures.
inline std::string image_text(const data::image_settings& images) {
  if (!images.processor) return "";
  const bool pillow = images.processor->resample == image::resampling::pillow;
  return "images " + std::to_string(images.processor->min_pixels) + " to " +
         std::to_string(images.processor->max_pixels) + " pixels each, resampled as " +
         (pillow ? "Pillow" : "torchvision") + " does it (rlcore.image_resampling)" +
         (images.processor->decode.opacity == image::alpha::white ? ", on white (rlcore.image_alpha)" : "");
}

/// "; 480 rows have pictures, the largest of 1316 x 728 pixels and 1222 tokens (20 rows with pictures left out)". Empty
/// without pictures.
inline std::string image_text(const data::image_counts& counts) {
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
