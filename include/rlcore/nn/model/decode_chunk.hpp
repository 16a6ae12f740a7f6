// What a pass of generation feeds of one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/nn/vision/positions.hpp"

RLCORE_BEGIN
namespace nn {

/// Consecutive tokens of one sequence, the first at `first_position`: a piece of a prompt, or one new token. `pages`
/// are the sequence's pages of the cache: positions 0 .. kv_page - 1 in pages[0] and so on, at least as far as the
/// chunk reaches. They hold everything before the chunk and receive the keys and values of its tokens. The rows of
/// pictures come from a vision_pass.
struct decode_chunk {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
  std::span<const std::int32_t> pages;
  bool wants_logits = false;  ///< those of the last token

  // Of a sequence with pictures:
  std::span<const rope_position> rope = {};  ///< where the tokens stand; empty: at first_position and following
  const float* pictures = nullptr;           ///< device memory: a row for each image token among `ids`, in order
};

}  // namespace nn
RLCORE_END
