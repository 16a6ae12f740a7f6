// Option names in messages: flags as typed instead of keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace train {

/// A table from keys to the flags that set them. Messages are written with keys; in() replaces them by flags.
class typed_names {
 public:
  /// `flag` stands for `key`. "key=value" becomes `typed`; with an equal number for `value` too. "key=FILE" and the
  /// like become "flag FILE"; the key with any other value stays.
  void add(std::string key, std::string flag, std::string value, std::string typed) {
    rows_.push_back({std::move(key), std::move(flag), std::move(value), std::move(typed)});
  }

  /// From here on no flag stands for `key`.
  void remove(std::string_view key) {
    std::erase_if(rows_, [&](const row& r) { return r.key == key; });
  }

  bool empty() const noexcept { return rows_.empty(); }
  /// The flag that stands for `key`, with its dashes; "" if there is none.
  std::string flag_of(std::string_view key) const {
    const auto r = std::find_if(rows_.begin(), rows_.end(), [&](const row& x) { return x.key == key; });
    return r == rows_.end() ? std::string() : r->flag;
  }

  /// Replaces keys in the text by flags. A key is also known by its last two words or more (rollout.n).
  std::string in(std::string_view text) const;

 private:
  struct row {
    std::string key, flag, value, typed;
  };

  /// Characters of a key; a path or a flag that contains a key's name is a different word.
  static bool in_word(char c) noexcept {
    return override_lexer::letter(c) || override_lexer::digit(c) || c == '_' || c == '.' || c == '-' || c == '/';
  }

  /// The row of a key, or of the only flag whose keys end with these words.
  const row* find(std::string_view word) const;

  static bool equal(const std::string& a, const std::string& b);

  /// The replacement of "word=value"; `text` begins with the '=', which is consumed with the rest of the replaced part.
  std::string with_value(std::string_view word, std::string_view& text) const;

  std::vector<row> rows_;
};

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE std::string typed_names::in(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size() && in_word(text[end])) ++end;
    if (end == 0) {
      out += text.front();
      text.remove_prefix(1);
      continue;
    }
    std::string_view word = text.substr(0, end);
    while (word.ends_with('.')) word.remove_suffix(1);
    text.remove_prefix(word.empty() ? end : word.size());
    if (word.empty()) {
      out.append(end, '.');
    } else if (text.starts_with('=')) {
      out += with_value(word, text);
    } else {
      const row* r = find(word);
      out += r != nullptr ? r->flag : std::string(word);
    }
  }
  return out;
}

RLCORE_INLINE auto typed_names::find(std::string_view word) const -> const row* {
  const row* found = nullptr;
  const std::string ending = "." + std::string(word);
  for (const row& r : rows_) {
    if (r.key == word) return &r;
    if (word.find('.') == word.npos || !r.key.ends_with(ending)) continue;
    if (found != nullptr && found->flag != r.flag) return nullptr;
    found = &r;
  }
  return found;
}

RLCORE_INLINE bool typed_names::equal(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char *a_end = nullptr, *b_end = nullptr;
  const double x = std::strtod(a.c_str(), &a_end), y = std::strtod(b.c_str(), &b_end);
  return !a.empty() && !b.empty() && *a_end == 0 && *b_end == 0 && x == y;
}

RLCORE_INLINE std::string typed_names::with_value(std::string_view word, std::string_view& text) const {
  std::size_t end = std::min(text.find_first_of(" ,;:)'"), text.size());
  while (text[end - 1] == '.') --end;  // of the sentence
  const std::string value(text.substr(1, end - 1));
  const row* r = find(word);
  for (const row& other : rows_)  // a key may have several values with flags of their own
    if (r != nullptr && other.key == r->key && equal(other.value, value)) {
      text.remove_prefix(end);
      return other.typed;
    }
  const bool placeholder =
      !value.empty() && std::all_of(value.begin(), value.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (r == nullptr || !placeholder) return std::string(word);
  text.remove_prefix(1);
  return r->flag + " ";
}

}  // namespace train
RLCORE_END
#endif
