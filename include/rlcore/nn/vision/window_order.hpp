// The order in which a vision tower takes the patches of pictures, and which of them see each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "rlcore/device/device.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// The sides of a picture in patches; multiples of spatial_merge_size.
struct patch_grid {
  std::int64_t height = 0, width = 0;
  bool operator==(const patch_grid&) const = default;
};

/// Tokens (cells of merged() patches) of all pictures, window after window. Inside a token the patches stay in order.
struct window_order {
  std::vector<std::int32_t> token;          ///< [tokens]: the number, in raster order, of the token at this place
  std::vector<std::int32_t> place;          ///< the inverse
  std::vector<attention_segment> windows;   ///< rows are patches
  std::vector<attention_segment> pictures;  ///< rows are patches
  std::vector<std::int32_t> row, column;    ///< [patches]: where the patch at this place is in its picture
};

/// Windows of window() x window() tokens, clipped at the border, in raster order, each in raster order; one picture
/// after the other.
window_order order_by_windows(std::span<const patch_grid> grids, const vision_config& c);

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
    segment(order.pictures, before);
  }
  order.place.resize(order.token.size());
  for (std::size_t i = 0; i < order.token.size(); ++i)
    order.place[static_cast<std::size_t>(order.token[i])] = static_cast<std::int32_t>(i);
  return order;
}

}  // namespace nn
RLCORE_END
#endif
