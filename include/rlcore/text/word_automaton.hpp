// Finds many words in a text at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// Finds words in texts in time linear in the text, whatever the words are (Aho and Corasick 1975). It reads a text
/// from its end to its beginning, and so knows at every byte the longest word that begins there. Takes 16 bytes for
/// each byte of the words. Empty words occur nowhere.
class word_automaton {
 public:
  word_automaton() = default;
  /// The automaton of `words`, which it does not keep.
  explicit word_automaton(std::span<const std::string_view> words);

  /// Calls visit(begin, i) for every position where words begin, the last one first; word i is the longest there, and
  /// the first of those that are equal.
  template <class Visit>
  void for_each(std::string_view text, Visit&& visit) const {
    std::uint32_t at = 0;
    for (std::size_t i = text.size(); i-- > 0;) {
      at = next(at, static_cast<unsigned char>(text[i]));
      if (nodes_[at].word != none) visit(i, std::size_t{nodes_[at].word});
    }
  }

  /// For every word, whether it occurs in `text`.
  std::vector<bool> occurring(std::string_view text) const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  /// A beginning of reversed words. The children of a node lie side by side, in the order of their bytes.
  struct node {
    std::uint32_t first_child = 0, back = 0;  ///< back: the longest other node that this one ends with
    std::uint32_t word = none;                ///< the longest word that this one ends with
    std::uint16_t children = 0;
    bool whole = false;  ///< it is a word
  };

  std::uint32_t child(std::uint32_t parent, unsigned char byte) const noexcept {
    const node& n = nodes_[parent];
    const auto begin = bytes_.begin() + n.first_child, end = begin + n.children;
    const auto found = std::lower_bound(begin, end, byte);
    return found != end && *found == byte ? static_cast<std::uint32_t>(found - bytes_.begin()) : 0;
  }
  std::uint32_t next(std::uint32_t at, unsigned char byte) const noexcept {
    for (; at != 0; at = nodes_[at].back)
      if (const std::uint32_t to = child(at, byte); to != 0) return to;
    return first_[byte];
  }
  void grow(std::span<const std::string_view> words, std::span<const std::uint32_t> sorted);

  std::vector<node> nodes_ = {node{}};
  std::vector<unsigned char> bytes_ = {0};  // of each node, the byte that leads to it
  std::array<std::uint32_t, 256> first_{};  // the children of the root
  std::vector<std::uint32_t> same_;         // of each word, the first one that equals it
};

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include "rlcore/core/compiler.hpp"

RLCORE_BEGIN
namespace text {

RLCORE_INLINE word_automaton::word_automaton(std::span<const std::string_view> words) : same_(words.size()) {
  std::vector<std::uint32_t> sorted(words.size());
  std::iota(sorted.begin(), sorted.end(), std::uint32_t{0});
  const auto before = [](char a, char b) { return static_cast<unsigned char>(a) < static_cast<unsigned char>(b); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::lexicographical_compare(words[a].rbegin(), words[a].rend(), words[b].rbegin(), words[b].rend(), before);
  });
  std::size_t kept = 0;
  for (const std::uint32_t i : sorted) {
    const bool repeated = kept > 0 && words[sorted[kept - 1]] == words[i];
    same_[i] = repeated ? sorted[kept - 1] : i;
    if (!repeated && !words[i].empty()) sorted[kept++] = i;
  }
  grow(words, std::span(sorted).first(kept));
}

RLCORE_INLINE void word_automaton::grow(std::span<const std::string_view> words,
                                        std::span<const std::uint32_t> sorted) {
  struct range {  // the words of `sorted` that a node begins
    std::size_t begin, end, depth;
  };
  std::vector<range> ranges{{0, sorted.size(), 0}};
  const auto byte_of = [&](std::size_t i, std::size_t depth) {
    return static_cast<unsigned char>(words[sorted[i]][words[sorted[i]].size() - 1 - depth]);
  };
  for (std::uint32_t at = 0; at < nodes_.size(); ++at) {  // nodes are appended level by level
    auto [begin, end, depth] = ranges[at];
    if (at != 0 && begin < end && words[sorted[begin]].size() == depth) {
      nodes_[at].whole = true;
      nodes_[at].word = sorted[begin++];
    } else if (at != 0) {
      nodes_[at].word = nodes_[nodes_[at].back].word;
    }
    nodes_[at].first_child = static_cast<std::uint32_t>(nodes_.size());
    while (begin < end) {
      const unsigned char byte = byte_of(begin, depth);
      std::size_t behind = begin + 1;
      while (behind < end && byte_of(behind, depth) == byte) ++behind;
      node made;
      if (at != 0) made.back = next(nodes_[at].back, byte);
      nodes_.push_back(made);
      bytes_.push_back(byte);
      ranges.push_back({begin, behind, depth + 1});
      ++nodes_[at].children;
      begin = behind;
    }
    if (at == 0)
      for (std::uint32_t to = 1; to < nodes_.size(); ++to) first_[bytes_[to]] = to;
  }
}

RLCORE_INLINE std::vector<bool> word_automaton::occurring(std::string_view text) const {
  std::vector<bool> reached(nodes_.size()), found(same_.size());
  std::uint32_t at = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    at = next(at, static_cast<unsigned char>(text[i]));
    reached[at] = true;
  }
  for (std::size_t n = nodes_.size(); n-- > 1;) {  // what a node ends with lies on an earlier level
    if (!reached[n]) continue;
    reached[nodes_[n].back] = true;
    if (nodes_[n].whole) found[nodes_[n].word] = true;
  }
  for (std::size_t i = 0; i < same_.size(); ++i) found[i] = found[same_[i]];
  return found;
}

}  // namespace text
RLCORE_END
#endif
