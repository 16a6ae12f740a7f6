// A multimodal prompt: images and rope positions that its sequences share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/vision/positions.hpp"

RLCORE_BEGIN
namespace rollout {

/// The images of a prompt and the rope positions of its tokens. A token after the prompt has position index + `delta`.
struct picture_prompt {
  std::vector<nn::picture> pictures;
  std::shared_ptr<const void> pixels;  ///< owns the data that the images view
  std::vector<nn::rope_position> positions;
  std::vector<std::int64_t> first_token, rows_before;  ///< per image; tower rows before each token
  std::int32_t delta = 0;
  std::size_t readers = 0;    ///< sequences that still have to prefill the prompt
  std::size_t last_pass = 0;  ///< the last pass that read the rows

  /// Throws std::invalid_argument if the images do not match the image tokens.
  picture_prompt(const nn::config& c, std::span<const std::int32_t> tokens, std::span<const nn::picture> shown,
                 std::shared_ptr<const void> owner)
      : pictures(shown.begin(), shown.end()), pixels(std::move(owner)) {
    std::vector<nn::patch_grid> grids;
    for (const nn::picture& each : pictures) grids.push_back(each.grid);
    nn::rope_positions all = nn::make_rope_positions(tokens, c.image_token_id, grids, c.vision->spatial_merge_size);
    positions = std::move(all.positions), delta = all.delta;
    rows_before.reserve(tokens.size() + 1);
    std::int64_t row = 0, next = 0;  // the first row of the next picture
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      rows_before.push_back(row);
      if (tokens[i] != c.image_token_id) continue;
      if (row++ != next) continue;
      const nn::patch_grid& grid = grids[first_token.size()];
      const std::int64_t merge = c.vision->spatial_merge_size;
      next += (grid.height / merge) * (grid.width / merge);
      first_token.push_back(static_cast<std::int64_t>(i));
    }
    rows_before.push_back(row);
  }

  /// Tower rows of all images.
  std::int64_t rows() const noexcept { return rows_before.back(); }
  /// Tower rows before the token at `position`.
  std::int64_t rows_until(std::int64_t position) const {
    return rows_before[static_cast<std::size_t>(std::min(position, std::ssize(rows_before) - 1))];
  }
  /// Does [begin, end) contain an image token?
  bool shows(std::int64_t begin, std::int64_t end) const { return rows_until(begin) < rows_until(end); }
  /// The images whose first token is in [begin, end).
  std::span<const nn::picture> pictures_in(std::int64_t begin, std::int64_t end) const {
    const auto first = std::ranges::lower_bound(first_token, begin), last = std::ranges::lower_bound(first_token, end);
    return std::span(pictures).subspan(static_cast<std::size_t>(first - first_token.begin()),
                                       static_cast<std::size_t>(last - first));
  }
};

}  // namespace rollout
RLCORE_END
