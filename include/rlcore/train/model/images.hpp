// Images of a model: processor settings with command-line overrides, and the images of packed sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/checkpoint/preprocessor_config.hpp"
#include "rlcore/config/settings/image_options.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/telemetry/console.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace train {

/// For a model without a vision tower, settings that reject rows with images. Reports what preprocessor_config.json
/// lacks. Throws format_error for a file that does not match the tower, config_error if no size fits.
data::image_settings model_images(const image_options& asked, const nn::config& model,
                                  const std::filesystem::path& folder);

/// "images 3136 to 1003520 pixels each, resampled as torchvision does it (...)": the settings in use, for the log.
/// Empty without images.
std::string image_text(const data::image_settings& images);

/// "; 480 of them have images, the largest of 1316 x 728 pixels and 1222 tokens (20 rows with images left out)".
/// Empty without images.
std::string image_text(const data::image_counts& counts);

/// One row of images per sequence, in the order of insertion. The object keeps the patches in memory, independent of
/// cache eviction.
class shown_images {
 public:
  /// Appends the images of the next sequence. Throws data_error for one that cannot be decoded; `cache` may be null
  /// without images.
  void push_back(std::span<const data::image_pointer> images, data::image_cache* cache) {
    std::vector<nn::image_patches> row;
    for (const data::image_pointer& file : images) {
      if (cache == nullptr) throw std::invalid_argument("rlcore: shown_images: images, but nothing that reads them");
      const data::image_cache::pointer& p = held_.emplace_back((*cache)(*file));
      row.push_back({{p->rows, p->columns}, p->values});
      bytes_ += p->values.size() * sizeof(float);
    }
    rows_.push_back(row);
  }
  /// Removes all rows.
  void clear() {
    rows_.clear(), held_.clear();
    bytes_ = 0;
  }

  /// The images of sequence i. Valid until the next push_back().
  std::span<const nn::image_patches> row(std::size_t i) const noexcept { return rows_.row(i); }
  /// Bytes of the patches.
  std::size_t bytes() const noexcept { return bytes_; }
  /// `tokens` with these images, one row per sequence.
  nn::input with(const ragged<std::int32_t>& tokens) const noexcept {
    return rows_.size() == 0 ? nn::input(tokens) : nn::input(tokens, rows_);
  }

 private:
  ragged<nn::image_patches> rows_;
  std::vector<data::image_cache::pointer> held_;
  std::size_t bytes_ = 0;
};

/// The grids of the images of each of `sequences`, without patches: headers are enough to compute the cost.
inline std::vector<nn::image_patches> grids_of(std::span<const data::image_pointer> images,
                                               const data::image_cache* cache, std::size_t sequences = 1) {
  std::vector<nn::image_patches> grids;
  if (cache == nullptr) return grids;
  const auto patch = static_cast<std::int64_t>(cache->processor().settings().shape.patch);
  for (const data::image_pointer& file : images) {
    const image::size seen = cache->processor().target(file->size);
    grids.insert(grids.end(), sequences, {{seen.height / patch, seen.width / patch}, {}});
  }
  return grids;
}

}  // namespace train

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TRAIN_RUN)
RLCORE_BEGIN
namespace train {

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
         (images.processor->decode.opacity == image::alpha::drop ? ", opacity dropped (rlcore.image_alpha)" : "");
}

RLCORE_INLINE std::string image_text(const data::image_counts& counts) {
  if (counts.rows == 0) return "";
  std::string text = "; " + std::to_string(counts.rows - counts.left_out) + " of them have images";
  if (counts.most_tokens > 0)
    text += ", the largest of " + std::to_string(counts.largest.width) + " x " + std::to_string(counts.largest.height) +
            " pixels and " + std::to_string(counts.most_tokens) + " tokens";
  if (counts.left_out > 0) text += " (" + std::to_string(counts.left_out) + " rows with images are left out)";
  return text;
}

}  // namespace train
RLCORE_END
#endif
