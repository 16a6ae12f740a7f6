// M-RoPE positions and attention windows of image patches.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// The size of an image in patches; multiples of spatial_merge_size.
struct patch_grid {
  std::int64_t height = 0, width = 0;
  bool operator==(const patch_grid&) const = default;
};

/// Tokens (cells of merged() patches) of all images, window after window. Inside a token the patches stay in order.
struct window_order {
  std::vector<std::int32_t> token;         ///< [tokens]: the number, in raster order, of the token at this place
  std::vector<std::int32_t> place;         ///< the inverse
  std::vector<attention_segment> windows;  ///< rows are patches
  std::vector<attention_segment> images;   ///< rows are patches
  std::vector<std::int32_t> row, column;   ///< [patches]: where the patch at this place is in its image
};

/// Windows of window() x window() tokens, clipped at the border, in raster order, each in raster order; one image
/// after the other.
window_order order_by_windows(std::span<const patch_grid> grids, const vision_config& c);

/// The position of a token: (n, n, n) for text; (time of the image, row, column) for an image token.
struct rope_position {
  std::int32_t time = 0, row = 0, column = 0;
  bool operator==(const rope_position&) const = default;

  /// The axis with which pair j of a head's components turns: the first sections[0] with time, then rows, then columns.
  std::int32_t of(std::size_t j, const std::array<std::int64_t, 3>& sections) const noexcept {
    const auto pair = static_cast<std::int64_t>(j);
    return pair < sections[0] ? time : pair < sections[0] + sections[1] ? row : column;
  }
};

/// The angles of tokens at `positions`, appended to `angles`: pair j of a head's components turns with its axis's
/// position times inverse[j].
inline void append_angles(std::vector<float>& angles, std::span<const rope_position> positions,
                          std::span<const float> inverse, const std::array<std::int64_t, 3>& sections) {
  for (const rope_position& p : positions)
    for (std::size_t j = 0; j < inverse.size(); ++j)
      angles.push_back(static_cast<float>(p.of(j, sections)) * inverse[j]);
}

/// Positions of a sequence. Text token number `positions.size() + k` has position positions.size() + k + delta.
struct rope_positions {
  std::vector<rope_position> positions;
  std::int32_t delta = 0;
};

/// Text tokens increment the position by one. The tokens of an image, a run of `image_token` with one token per grid
/// cell, have positions (n, n + y, n + x) in raster order; the next token has n plus the longer side. Throws
/// std::invalid_argument if runs and `grids` do not match.
rope_positions make_rope_positions(std::span<const std::int32_t> tokens, std::int32_t image_token,
                                   std::span<const patch_grid> grids, std::int64_t merge = 2);

}  // namespace nn

RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE window_order order_by_windows(std::span<const patch_grid> grids, const vision_config& c) {
  const std::int64_t merge = c.spatial_merge_size, side = c.window();
  window_order order;
  const auto segment = [&](std::vector<attention_segment>& to, std::size_t first_token) {
    const auto first = static_cast<extent_t>(first_token) * c.merged();
    const auto rows = static_cast<extent_t>(order.token.size()) * c.merged() - first;
    to.push_back({nullptr, nullptr, 0, first, rows, 0});
  };
  for (const patch_grid& grid : grids) {
    const std::int64_t height = grid.height / merge, width = grid.width / merge;
    const std::size_t before = order.token.size();
    for (std::int64_t top = 0; top < height; top += side)
      for (std::int64_t left = 0; left < width; left += side) {
        const std::size_t window = order.token.size();
        for (std::int64_t y = top; y < std::min(top + side, height); ++y)
          for (std::int64_t x = left; x < std::min(left + side, width); ++x) {
            order.token.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(before) + y * width + x));
            for (std::int64_t p = 0; p < c.merged(); ++p) {
              order.row.push_back(static_cast<std::int32_t>(y * merge + p / merge));
              order.column.push_back(static_cast<std::int32_t>(x * merge + p % merge));
            }
          }
        segment(order.windows, window);
      }
    segment(order.images, before);
  }
  order.place.resize(order.token.size());
  for (std::size_t i = 0; i < order.token.size(); ++i)
    order.place[static_cast<std::size_t>(order.token[i])] = static_cast<std::int32_t>(i);
  return order;
}

RLCORE_INLINE rope_positions make_rope_positions(std::span<const std::int32_t> tokens, std::int32_t image_token,
                                                 std::span<const patch_grid> grids, std::int64_t merge) {
  rope_positions result;
  result.positions.reserve(tokens.size());
  std::int32_t next = 0;
  std::size_t image = 0;
  const auto fail = [&](const std::string& what) {
    throw std::invalid_argument("rlcore: a sequence with " + std::to_string(grids.size()) + " images " + what);
  };
  for (std::size_t i = 0; i < tokens.size();) {
    if (tokens[i] != image_token) {
      result.positions.push_back({next, next, next});
      ++next, ++i;
      continue;
    }
    if (image == grids.size()) fail("has image tokens for more");
    const auto height = static_cast<std::int32_t>(grids[image].height / merge),
               width = static_cast<std::int32_t>(grids[image].width / merge);
    const std::size_t count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    const auto run = tokens.subspan(i, std::min(count, tokens.size() - i));
    if (run.size() < count || std::ranges::any_of(run, [&](std::int32_t t) { return t != image_token; }))
      fail("has fewer than " + std::to_string(count) + " image tokens in the run of image " + std::to_string(image));
    for (std::int32_t y = 0; y < height; ++y)
      for (std::int32_t x = 0; x < width; ++x) result.positions.push_back({next, next + y, next + x});
    next += std::max(height, width);
    i += count, ++image;
  }
  if (image < grids.size()) fail("has image tokens for " + std::to_string(image));
  result.delta = next - static_cast<std::int32_t>(tokens.size());
  return result;
}

}  // namespace nn
RLCORE_END
#endif
