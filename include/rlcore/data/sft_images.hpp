// Pictures of supervised rows: as many tokens as the model sees of each, none of which is learnt.
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

/// Gives an example its pictures: the one token of each becomes as many as the picture takes, and no such token counts
/// as written, whoever's turn it stands in. Throws data_error with `where` unless there is one token for each picture.
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
