// Added tokens: strings that are split off before normalization and BPE.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/normalizer.hpp"
#include "rlcore/text/utf8.hpp"

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

/// Finds added tokens in a text: leftmost-longest, as Hugging Face's tokenizers do.
class added_token_finder {
 public:
  /// Adds a token that is written `spelling` in the text searched.
  void add(const added_token& token, std::string spelling) {
    if (spelling.empty()) return;
    auto& group = by_first_byte_[static_cast<unsigned char>(spelling[0])];
    group.push_back({std::move(spelling), token});
    std::stable_sort(group.begin(), group.end(),
                     [](const entry& a, const entry& b) { return a.spelling.size() > b.spelling.size(); });
    any_ = true;
  }

  bool empty() const noexcept { return !any_; }

  /// Calls on_text(part) and on_token(id) from left to right. Special tokens stay text unless `parse_special`. White
  /// space that a token takes (rstrip) is searched for further tokens, as tokenizers 0.23 does.
  template <class OnText, class OnToken>
  void split(std::string_view text, bool parse_special, OnText&& on_text, OnToken&& on_token) const {
    std::size_t done = 0, at = 0;
    while (any_ && at < text.size()) {
      const entry* match = find(text, at);
      if (match == nullptr) {
        ++at;
        continue;
      }
      std::size_t begin = at, end = at + match->spelling.size();
      at = end;
      const added_token& token = match->token;
      if (token.special && !parse_special) continue;
      if (token.single_word && (word_before(text, begin) || word_after(text, end))) continue;
      if (token.lstrip) begin = std::max(space_before(text, begin), done);
      if (token.rstrip) end += text.size() - end - strip(text.substr(end), true, false).size();
      if (done < begin) on_text(text.substr(done, begin - done));
      on_token(token.id);
      done = end;
    }
    if (done < text.size()) on_text(text.substr(done));
  }

 private:
  struct entry {
    std::string spelling;
    added_token token;
  };

  const entry* find(std::string_view text, std::size_t at) const noexcept {
    for (const entry& e : by_first_byte_[static_cast<unsigned char>(text[at])])
      if (text.compare(at, e.spelling.size(), e.spelling) == 0) return &e;
    return nullptr;
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
  static std::size_t space_before(std::string_view text, std::size_t at) noexcept {
    while (at > 0) {
      const utf8_step step = character_before(text, at);
      if (!is_white_space(step.code_point)) break;
      at -= step.length;
    }
    return at;
  }

  std::array<std::vector<entry>, 256> by_first_byte_;
  bool any_ = false;
};

}  // namespace text
RLCORE_END
