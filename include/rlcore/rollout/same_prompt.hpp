// Which requests share what has been computed of their prompts.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "rlcore/rollout/request.hpp"

RLCORE_BEGIN
namespace rollout {

/// Do both have the same grid and the same floats, to the bit?
inline bool same_picture(const nn::picture& a, const nn::picture& b) {
  return a.grid == b.grid && a.patches.size() == b.patches.size() &&
         (a.patches.data() == b.patches.data() || a.patches.empty() ||
          std::memcmp(a.patches.data(), b.patches.data(), a.patches.size_bytes()) == 0);
}

/// Do both have the same prompt tokens and the same pictures? Equal tokens are not enough: those of a picture say only
/// how many it has.
inline bool same_prompt(const request& a, const request& b) {
  const bool same_tokens = a.prompt.size() == b.prompt.size() &&
                           (a.prompt.data() == b.prompt.data() || std::ranges::equal(a.prompt, b.prompt));
  if (!same_tokens || a.pictures.size() != b.pictures.size()) return false;
  return a.pictures.data() == b.pictures.data() || std::ranges::equal(a.pictures, b.pictures, same_picture);
}

}  // namespace rollout
RLCORE_END
