// Images of SFT examples: expansion of image tokens, which are masked from the loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/data/image_rows.hpp"
#include "rlcore/data/sft_dataset.hpp"

RLCORE_BEGIN
namespace data {

/// Attaches images to an example: each image token is expanded to the image's token count, and image tokens are
/// masked from the loss in every turn. Throws data_error with `where` unless the example has one image token for each
/// image.
inline sft_example with_images(sft_example example, std::vector<image_pointer> images, const image_settings& settings,
                               const std::string& where) {
  check_image_tokens(example.tokens, images.size(), settings, where);
  if (images.empty()) return example;
  sft_example shown;
  shown.images = std::move(images);
  std::size_t at = 0;
  for_expanded_tokens(example.tokens, shown.images, settings, [&](std::int32_t id, std::size_t count) {
    shown.tokens.insert(shown.tokens.end(), count, id);
    shown.written.resize(shown.tokens.size(), id == settings.token ? 0 : example.written[at]);
    ++at;
  });
  return shown;
}

}  // namespace data
RLCORE_END
