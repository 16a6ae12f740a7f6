// Who belongs to whom after a split.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace parallel {

/// What a rank asks for in a split: the group of its color, and its place there by key.
struct split_wish {
  int color = 0, key = 0;
};

/// The ranks that wish for `color`, ordered by key, then by rank.
inline std::vector<int> split_group(std::span<const split_wish> wishes, int color) {
  std::vector<int> group;
  for (std::size_t r = 0; r < wishes.size(); ++r)
    if (wishes[r].color == color) group.push_back(static_cast<int>(r));
  std::stable_sort(group.begin(), group.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return group;
}

}  // namespace parallel
RLCORE_END
