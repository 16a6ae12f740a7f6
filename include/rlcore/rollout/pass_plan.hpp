// What a pass does besides feeding tokens.
#pragma once

#include <cstdint>

#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

/// A token to draw. `row` is the row of the pass's logits, `turn` the number of earlier draws from it, `number` the
/// number of the token behind the prompt.
struct scheduled_draw {
  std::int32_t row = 0, turn = 0;
  sequence* of = nullptr;
  std::uint32_t number = 0;
};

/// Row `row` of the pass's logits gives the log-prob of token `number` of the prompt.
struct scheduled_score {
  std::int32_t row = 0;
  sequence* of = nullptr;
  std::int64_t number = 0;
};

/// Page `from` is to be copied to page `to`.
struct page_copy {
  std::int32_t to = 0, from = 0;
};

/// What a schedule has to keep to. No text depends on it.
struct schedule_limits {
  std::int64_t max_sequences = 0;       ///< that run together
  std::int64_t max_batched_tokens = 0;  ///< of a pass
  std::int64_t longest = 0;             ///< tokens of a sequence
  std::int64_t score_rows = 0;          ///< tokens of prompts that are scored in a pass
  std::int64_t picture_rows = 0;        ///< of the prompts that a pass reads pictures of
  bool share_prefixes = false;          ///< look for the pages of a new sequence among those of all earlier ones
  bool chunk_prompts = true;            ///< feed prompts in pieces; otherwise one that is longer than a pass goes alone
  std::int64_t prompt_tokens = 0;       ///< of a pass, of those that do not draw; 0: as many as it takes
};

}  // namespace rollout
RLCORE_END
