// The limits of a session, and its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rlcore/device/device.hpp"

RLCORE_BEGIN
namespace rollout {

/// What a session may use, from its start to its end. No text depends on the settings before `weights`.
struct session_limits {
  std::int64_t max_sequences = 256;        ///< that run together (vLLM's --max-num-seqs)
  std::int64_t max_batched_tokens = 8192;  ///< of one forward pass (--max-num-batched-tokens)
  /// Of these, tokens of prompts: texts go on meanwhile, and first prompts have their first tokens soon. 0: all of
  /// them.
  std::int64_t max_prompt_tokens = 0;
  /// Tokens of a prompt and what follows (--max-model-len). 0: the model's max_position_embeddings, or what the cache
  /// holds if that is less.
  std::int64_t max_length = 0;
  std::size_t max_cache_bytes = std::size_t{2} << 30;  ///< keys and values, rows of pictures
  std::int64_t max_image_tokens = 0;                   ///< of a prompt; 0: max_batched_tokens
  /// A sequence reads the pages of an earlier one that began alike (--enable-prefix-caching).
  bool share_prefixes = true;
  bool chunk_prompts = true;  ///< a prompt may be fed in pieces; otherwise a prompt longer than a pass goes alone
  std::optional<weight_format> weights = {};  ///< as in rollout::generation
};

/// What a session does at the moment, and has done since its start.
struct session_statistics {
  std::size_t running = 0, waiting = 0;
  std::size_t open = 0;  ///< jobs between two turns
  std::int32_t pages_used = 0, pages = 0;
  std::size_t passes = 0, tokens_fed = 0, tokens_drawn = 0;
  std::size_t prefix_hits = 0;  ///< tokens that were not fed since their pages were found
  std::size_t preemptions = 0;
  std::size_t pictures_read = 0;  ///< by the vision tower
};

}  // namespace rollout
RLCORE_END
