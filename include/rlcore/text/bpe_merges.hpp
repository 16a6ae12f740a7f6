// The merge rules of a BPE vocabulary and the loop that applies them to one word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Merge rules (left, right) -> merged, in order of rank: byte pair encoding (Gage 1994; Sennrich et al. 2016).
class bpe_merges {
 public:
  /// The result and rank of a merge.
  struct rule {
    std::int32_t rank = -1;  ///< -1: no rule
    std::int32_t merged = -1;
  };

  /// Room for `rules` rules.
  explicit bpe_merges(std::size_t rules = 0) {
    std::size_t capacity = 16;
    while (capacity < 2 * rules) capacity *= 2;
    slots_.resize(capacity);
  }

  /// Adds a rule; a later rule for the same pair replaces the earlier one. At most as many as announced.
  void add(std::int32_t left, std::int32_t right, rule r);

  /// The rule for a pair; rank -1 when there is none.
  rule find(std::int32_t left, std::int32_t right) const noexcept;

  /// Merges `symbols` until no rule applies: always the lowest rank, ties leftmost. O(n log n) for long words.
  void apply(std::vector<std::int32_t>& symbols) const;

 private:
  struct slot {
    std::uint64_t key = empty_key;
    rule value;
  };
  static constexpr std::uint64_t empty_key = ~std::uint64_t{0};

  static std::uint64_t pair_key(std::int32_t left, std::int32_t right) noexcept {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
  }
  std::size_t slot_of(std::uint64_t key) const noexcept {
    key *= 0x9E3779B97F4A7C15ull;
    return static_cast<std::size_t>(key ^ (key >> 32)) & (slots_.size() - 1);
  }

  void apply_short(std::vector<std::int32_t>& symbols) const;

  void apply_long(std::vector<std::int32_t>& symbols) const;

  std::vector<slot> slots_;
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE void bpe_merges::add(std::int32_t left, std::int32_t right, rule r) {
  const std::uint64_t key = pair_key(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != empty_key && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {key, r};
}

RLCORE_INLINE auto bpe_merges::find(std::int32_t left, std::int32_t right) const noexcept -> rule {
  const std::uint64_t key = pair_key(left, right);
  std::size_t at = slot_of(key);
  while (slots_[at].key != empty_key) {
    if (slots_[at].key == key) return slots_[at].value;
    at = (at + 1) & (slots_.size() - 1);
  }
  return {};
}

RLCORE_INLINE void bpe_merges::apply(std::vector<std::int32_t>& symbols) const {
  if (symbols.size() < 48) {
    apply_short(symbols);
  } else {
    apply_long(symbols);
  }
}

RLCORE_INLINE void bpe_merges::apply_short(std::vector<std::int32_t>& symbols) const {
  rule rules[48];
  std::size_t n = symbols.size();
  for (std::size_t i = 0; i + 1 < n; ++i) rules[i] = find(symbols[i], symbols[i + 1]);
  while (n > 1) {
    std::size_t best = n;
    for (std::size_t i = 0; i + 1 < n; ++i)
      if (rules[i].rank >= 0 && (best == n || rules[i].rank < rules[best].rank)) best = i;
    if (best == n) break;
    symbols[best] = rules[best].merged;
    --n;
    for (std::size_t i = best + 1; i < n; ++i) symbols[i] = symbols[i + 1], rules[i] = rules[i + 1];
    if (best > 0) rules[best - 1] = find(symbols[best - 1], symbols[best]);
    rules[best] = best + 1 < n ? find(symbols[best], symbols[best + 1]) : rule{};
  }
  symbols.resize(n);
}

RLCORE_INLINE void bpe_merges::apply_long(std::vector<std::int32_t>& symbols) const {
  struct candidate {
    std::int32_t rank, merged;
    std::size_t at;
    bool operator<(const candidate& other) const noexcept {  // std::priority_queue pops the greatest
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const std::size_t n = symbols.size();
  std::vector<std::size_t> previous(n), next(n);
  std::priority_queue<candidate> queue;
  const auto consider = [&](std::size_t at) {
    if (next[at] >= n) return;
    const rule r = find(symbols[at], symbols[next[at]]);
    if (r.rank >= 0) queue.push({r.rank, r.merged, at});
  };
  for (std::size_t i = 0; i < n; ++i) previous[i] = i - 1, next[i] = i + 1;  // previous of 0 is never followed
  for (std::size_t i = 0; i + 1 < n; ++i) consider(i);
  while (!queue.empty()) {
    const candidate best = queue.top();
    queue.pop();
    const std::size_t at = best.at;
    // An entry is stale when either of its symbols was merged since: then the pair there makes another token.
    if (symbols[at] < 0 || next[at] >= n) continue;
    const std::size_t right = next[at];
    const rule now = find(symbols[at], symbols[right]);
    if (now.rank != best.rank || now.merged != best.merged) continue;
    symbols[at] = best.merged;
    symbols[right] = -1;
    next[at] = next[right];
    if (next[at] < n) previous[next[at]] = at;
    if (at > 0) consider(previous[at]);
    consider(at);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; i = next[i]) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace text
RLCORE_END
#endif
