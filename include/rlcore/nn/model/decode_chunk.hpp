// What a pass of generation feeds of one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// Consecutive tokens of one sequence, the first at `first_position`: a piece of a prompt, or one new token. `pages`
/// are the sequence's pages of the cache: positions 0 .. kv_page - 1 in pages[0] and so on, at least as far as the
/// chunk reaches. They hold everything before the chunk and receive the keys and values of its tokens.
struct decode_chunk {
  std::span<const std::int32_t> ids;
  std::int64_t first_position = 0;
  std::span<const std::int32_t> pages;
  bool wants_logits = false;  ///< those of the last token
};

}  // namespace nn
RLCORE_END
