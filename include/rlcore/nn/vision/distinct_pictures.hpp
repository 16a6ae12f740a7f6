// Pictures that several sequences of a pass show, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "rlcore/nn/model/input.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace nn {

/// The same grid and the same bits in every float.
inline bool same_picture(const picture& a, const picture& b) noexcept {
  return a.grid == b.grid && a.patches.size() == b.patches.size() &&
         (a.patches.data() == b.patches.data() ||
          std::memcmp(a.patches.data(), b.patches.data(), a.patches.size_bytes()) == 0);
}

/// Pictures without those that are the same as an earlier one.
struct distinct_pictures {
  std::vector<picture> pictures;
  std::vector<std::int32_t> row;  ///< of each token of all pictures in order: its number among those of `pictures`
};

/// Each picture of `all` once, in the order of their first places.
inline distinct_pictures find_distinct(std::span<const picture> all, const vision_config& c) {
  distinct_pictures found;
  std::vector<std::int32_t> begin;  // of each picture's tokens
  std::int32_t end = 0;
  for (const picture& each : all) {
    std::size_t k = 0;
    while (k < found.pictures.size() && !same_picture(found.pictures[k], each)) ++k;
    const auto tokens = static_cast<std::int32_t>(each.grid.height * each.grid.width / c.merged());
    if (k == found.pictures.size()) {
      found.pictures.push_back(each);
      begin.push_back(end);
      end += tokens;
    }
    for (std::int32_t i = 0; i < tokens; ++i) found.row.push_back(begin[k] + i);
  }
  return found;
}

}  // namespace nn
RLCORE_END
