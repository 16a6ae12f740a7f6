// Decodes the images of a prompt into a memory budget shared by requests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/image_cache.hpp"
#include "rlcore/data/image_file.hpp"
#include "rlcore/data/image_rows.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/rollout/job.hpp"
#include "rlcore/serving/byte_budget.hpp"
#include "rlcore/serving/prompt.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/serving/served_model.hpp"

RLCORE_BEGIN
namespace serving {

/// Memory of the image patches, and the temporary memory of decoding the largest image.
struct picture_memory {
  std::size_t patches = 0, decoding = 0;
};

/// The memory of a prompt's images, from their headers.
picture_memory memory_of(const served_model& model, const model_prompt& prompt);

/// Decodes the images of a prompt as soon as there is room, and attaches them to its jobs. Returns the memory to hold
/// while the jobs run; empty for a prompt without images. Throws client_gone, and api_error 400 that names the part.
std::unique_ptr<held_bytes> show_pictures(const served_model& model, const model_prompt& prompt, byte_budget& memory,
                                          std::vector<rollout::job>& jobs, const std::function<bool()>& connected = {});

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE picture_memory memory_of(const served_model& model, const model_prompt& prompt) {
  constexpr std::size_t bytes_of_pixel = 12;  // colours, the copies of a resampler, a progressive JPEG's coefficients
  picture_memory bytes;
  for (const data::image_pointer& i : prompt.images) {
    const image::patch_shape& shape = model.images.processor->shape;
    bytes.patches +=
        data::count_image_tokens(*i, model.images) * shape.merge * shape.merge * shape.row() * sizeof(float);
    bytes.decoding =
        std::max(bytes.decoding, bytes_of_pixel * static_cast<std::size_t>(i->size.height * i->size.width));
  }
  return bytes;
}

RLCORE_INLINE std::unique_ptr<held_bytes> show_pictures(const served_model& model, const model_prompt& prompt,
                                                        byte_budget& memory, std::vector<rollout::job>& jobs,
                                                        const std::function<bool()>& connected) {
  if (prompt.images.empty()) return nullptr;
  const picture_memory bytes = memory_of(model, prompt);
  auto held = std::make_unique<held_bytes>(memory, bytes.patches + bytes.decoding, connected);
  const auto made = std::make_shared<std::vector<data::image_cache::pointer>>();
  std::vector<nn::picture> pictures;
  try {
    for (const data::image_pointer& i : prompt.images) {
      const image::patches& p = *made->emplace_back((*model.images.cache)(*i));
      pictures.push_back({{p.rows, p.columns}, p.values});
    }
  } catch (const data_error& e) {
    throw bad_request(e.what());
  }
  for (rollout::job& j : jobs) j.pictures = pictures, j.pixels = made;
  held->keep(bytes.patches);
  return held;
}

}  // namespace serving
RLCORE_END
#endif
