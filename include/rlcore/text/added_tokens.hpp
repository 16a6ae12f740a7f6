// The added tokens of a tokenizer, and where they stand in a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/utf8.hpp"
#include "rlcore/text/word_automaton.hpp"

RLCORE_BEGIN
namespace text {

/// One entry of `added_tokens` in a tokenizer.json.
struct added_token {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;  ///< matches only between non-word characters
  bool lstrip = false;       ///< includes white space to its left
  bool rstrip = false;       ///< includes white space to its right
  bool normalized = true;    ///< matched in the normalised text instead of the raw one
  bool special = false;      ///< a control token: skipped with skip_special_tokens
};

/// Finds added tokens in a text: leftmost-longest, as Hugging Face's tokenizers do. Takes time linear in the text,
/// whatever the tokens are.
class added_token_finder {
 public:
  /// A token, and how it is written in the text searched.
  struct entry {
    std::string spelling;
    added_token token;
  };

  added_token_finder() = default;
  /// Finds these tokens; of two with one spelling the first.
  explicit added_token_finder(std::vector<entry> entries) : entries_(std::move(entries)) {
    std::vector<std::string_view> spellings;
    for (const entry& e : entries_) spellings.push_back(e.spelling);
    any_ = std::any_of(spellings.begin(), spellings.end(), [](std::string_view s) { return !s.empty(); });
    automaton_ = word_automaton(spellings);
  }

  bool empty() const noexcept { return !any_; }

  /// Calls on_text(part) and on_token(id) from left to right. Special tokens stay text unless `parse_special`. White
  /// space that a token takes (rstrip) is searched for further tokens, as tokenizers 0.23 does.
  template <class OnText, class OnToken>
  void split(std::string_view text, bool parse_special, OnText&& on_text, OnToken&& on_token) const {
    std::size_t done = 0, at = 0, space_end = 0;
    const std::vector<place> places = any_ ? places_of(text) : std::vector<place>();
    for (auto p = places.rbegin(); p != places.rend(); ++p) {
      if (p->begin < at) continue;
      const entry& match = entries_[p->entry];
      std::size_t begin = p->begin, end = begin + match.spelling.size();
      at = end;
      const added_token& token = match.token;
      if (token.special && !parse_special) continue;
      if (token.single_word && (word_before(text, begin) || word_after(text, end))) continue;
      if (token.lstrip) begin = space_before(text, begin, done);
      if (token.rstrip) end = space_end = end < space_end ? space_end : space_behind(text, end);
      if (done < begin) on_text(text.substr(done, begin - done));
      on_token(token.id);
      done = end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  /// Where a spelling begins, and the entry that has it.
  struct place {
    std::size_t begin, entry;
  };

  /// The longest spelling at every position, the last one first.
  std::vector<place> places_of(std::string_view text) const {
    std::vector<place> places;
    automaton_.for_each(text, [&](std::size_t begin, std::size_t i) { places.push_back({begin, i}); });
    return places;
  }

  static utf8_step character_before(std::string_view text, std::size_t at) noexcept {
    std::size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    return read_utf8(text, begin);
  }
  static bool word_before(std::string_view text, std::size_t at) noexcept {
    return at > 0 && is_word_character(character_before(text, at).code_point);
  }
  static bool word_after(std::string_view text, std::size_t at) noexcept {
    return at < text.size() && is_word_character(read_utf8(text, at).code_point);
  }
  /// Where the white space in front of `at` begins, at the earliest at `first`.
  static std::size_t space_before(std::string_view text, std::size_t at, std::size_t first) noexcept {
    while (at > first) {
      const utf8_step step = character_before(text, at);
      if (!is_white_space(step.code_point)) break;
      at -= step.length;
    }
    return std::max(at, first);
  }
  /// Where the white space behind `at` ends.
  static std::size_t space_behind(std::string_view text, std::size_t at) noexcept {
    while (at < text.size()) {
      const utf8_step step = read_utf8(text, at);
      if (!is_white_space(step.code_point)) break;
      at += step.length;
    }
    return at;
  }

  std::vector<entry> entries_;
  word_automaton automaton_;
  bool any_ = false;
};

}  // namespace text
RLCORE_END
