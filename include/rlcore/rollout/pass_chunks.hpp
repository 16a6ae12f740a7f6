// The batch of one forward pass: its chunks, draws and scores; comparison of prompts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/nn/model/decode.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

/// A token to draw. `row` is the row of the pass's logits, `turn` the number of earlier draws from this row, `number`
/// the index of the token after the prompt.
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

/// Copies page `from` to page `to`.
struct page_copy {
  std::int32_t to = 0, from = 0;
};

/// The limits of a schedule. No generated text depends on them.
struct schedule_limits {
  std::int64_t max_sequences = 0;       ///< running at the same time
  std::int64_t max_batched_tokens = 0;  ///< per pass
  std::int64_t longest = 0;             ///< maximum sequence length in tokens
  std::int64_t score_rows = 0;          ///< prompt tokens scored per pass
  std::int64_t picture_rows = 0;        ///< image rows of all prompts whose images a pass reads
  bool share_prefixes = false;          ///< prefix caching across sequences
  bool chunk_prompts = true;            ///< chunked prefill; otherwise a prompt longer than a pass goes alone
  std::int64_t prompt_tokens = 0;       ///< prefill tokens per pass; 0: no separate limit
};

/// A list of chunks with their sequences. Keeps its memory between passes.
class pass_chunks {
 public:
  void clear() { chunks_.clear(), owners_.clear(); }
  bool empty() const noexcept { return chunks_.empty(); }
  std::size_t size() const noexcept { return chunks_.size(); }

  /// Appends a chunk of the sequence.
  void push(const nn::decode_chunk& chunk, sequence& s) { chunks_.push_back(chunk), owners_.push_back(&s); }
  /// Chunk number i.
  nn::decode_chunk& operator[](std::size_t i) { return chunks_[i]; }
  std::span<const nn::decode_chunk> all() const noexcept { return chunks_; }
  /// The sequence of each chunk.
  std::span<sequence* const> owners() const noexcept { return owners_; }

  /// Groups chunks with equal sampling settings, so that one sampler call serves them.
  void order() {
    const auto before = [](const sequence* a, const sequence* b) { return a->reading() < b->reading(); };
    if (std::ranges::is_sorted(owners_, before)) return;
    order_.resize(chunks_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {  // stable, without extra memory
      return before(owners_[a], owners_[b]) || (a < b && !before(owners_[b], owners_[a]));
    });
    other_chunks_.clear(), other_owners_.clear();
    for (const std::uint32_t i : order_) other_chunks_.push_back(chunks_[i]), other_owners_.push_back(owners_[i]);
    chunks_.swap(other_chunks_), owners_.swap(other_owners_);
  }

 private:
  std::vector<nn::decode_chunk> chunks_, other_chunks_;
  std::vector<sequence*> owners_, other_owners_;
  std::vector<std::uint32_t> order_;
};

/// Do both have the same grid and bit-identical floats?
inline bool same_picture(const nn::picture& a, const nn::picture& b) {
  return a.grid == b.grid && a.patches.size() == b.patches.size() &&
         (a.patches.data() == b.patches.data() || a.patches.empty() ||
          std::memcmp(a.patches.data(), b.patches.data(), a.patches.size_bytes()) == 0);
}

/// Do both have the same prompt tokens and the same images? Equal tokens are not enough: image tokens encode only
/// their number.
inline bool same_prompt(const request& a, const request& b) {
  const bool same_tokens = a.prompt.size() == b.prompt.size() &&
                           (a.prompt.data() == b.prompt.data() || std::ranges::equal(a.prompt, b.prompt));
  if (!same_tokens || a.pictures.size() != b.pictures.size()) return false;
  return a.pictures.data() == b.pictures.data() || std::ranges::equal(a.pictures, b.pictures, same_picture);
}

/// Whether two sequences have the same prompt, images included.
inline bool same_prompt(const sequence& a, const sequence& b) {
  const auto prompt = [](const sequence& s) {
    return request{std::span(s.tokens).first(static_cast<std::size_t>(s.prompt_length)), 0, 0, s.asked.pictures};
  };
  return same_prompt(prompt(a), prompt(b));
}

}  // namespace rollout
RLCORE_END
