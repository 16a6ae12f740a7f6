// The chunks of a pass, and whose they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "rlcore/nn/model/decode_chunk.hpp"
#include "rlcore/rollout/sequence.hpp"

RLCORE_BEGIN
namespace rollout {

/// A list of chunks with their sequences. Keeps its memory from pass to pass.
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

  /// Chunks whose logits are read alike lie together from now on, so that one call reads them.
  void order() {
    const auto before = [](const sequence* a, const sequence* b) { return a->reading() < b->reading(); };
    if (std::ranges::is_sorted(owners_, before)) return;
    order_.resize(chunks_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    std::ranges::sort(order_, [&](std::uint32_t a, std::uint32_t b) {  // stable, without memory for it
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

}  // namespace rollout
RLCORE_END
