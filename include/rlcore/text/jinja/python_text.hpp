// Python's str in UTF-8: positions count characters, not bytes.
#pragma once

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text::jinja {

/// How many bytes the character that starts with `lead` has; a byte that starts none counts alone.
constexpr std::size_t bytes_of_character(char lead) noexcept {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/// The number of characters.
constexpr std::size_t count_characters(std::string_view s) noexcept {
  std::size_t count = 0;
  for (const char c : s) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

/// The characters, each as its bytes.
std::vector<std::string_view> characters(std::string_view s);

/// The code point of one character.
std::int32_t code_point(std::string_view character) noexcept;

/// Python's str.isspace() for one character.
bool is_space(std::string_view character) noexcept;

/// str.strip (left and right), str.lstrip, str.rstrip: without the characters of `set`, of white space if it is null.
std::string_view strip(std::string_view s, const std::string* set, bool left, bool right);

/// str.upper() or str.lower(), character by character.
std::string change_case(std::string_view s, bool upper);

/// str.capitalize(), or str.title() with `every_word`.
std::string capitalize(std::string_view s, bool every_word);

/// str.split(separator, most): at white space if the separator is null; `most` < 0: no limit.
std::vector<std::string> split(std::string_view s, const std::string* separator, std::int64_t most);

/// str.rsplit(separator, most) with a separator.
std::vector<std::string> split_from_end(std::string_view s, std::string_view separator, std::int64_t most);

/// str.replace(from, to, most); most < 0: every one.
std::string replace(std::string_view s, std::string_view from, std::string_view to, std::int64_t most);

/// The indices selected by Python's slice [start:stop:step] of `size` elements, in order; null: omitted.
std::vector<std::size_t> slice_positions(std::size_t size, const std::int64_t* start, const std::int64_t* stop,
                                         std::int64_t step);

}  // namespace text::jinja
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text::jinja {

RLCORE_INLINE std::vector<std::string_view> characters(std::string_view s) {
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t n = std::min(bytes_of_character(s[i]), s.size() - i);
    out.push_back(s.substr(i, n));
    i += n;
  }
  return out;
}

RLCORE_INLINE std::int32_t code_point(std::string_view character) noexcept {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

RLCORE_INLINE bool is_space(std::string_view character) noexcept {
  if (character.size() == 1) {
    const char c = character[0];
    return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  }
  const std::int32_t code = code_point(character);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

RLCORE_INLINE std::string_view strip(std::string_view s, const std::string* set, bool left, bool right) {
  const auto drop = [&](std::string_view c) { return set == nullptr ? is_space(c) : set->find(c) != set->npos; };
  while (left && !s.empty()) {
    const std::size_t n = std::min(bytes_of_character(s[0]), s.size());
    if (!drop(s.substr(0, n))) break;
    s.remove_prefix(n);
  }
  while (right && !s.empty()) {
    std::size_t n = 1;
    while (n < s.size() && n < 4 && (static_cast<unsigned char>(s[s.size() - n]) & 0xC0) == 0x80) ++n;
    if (!drop(s.substr(s.size() - n))) break;
    s.remove_suffix(n);
  }
  return s;
}

RLCORE_INLINE std::string change_case(std::string_view s, bool upper) {
  std::string out;
  for (const std::string_view c : characters(s)) {
    if (upper && c == "\xC3\x9F") {  // the one common letter that becomes two
      out += "SS";
      continue;
    }
    utf8proc_uint8_t bytes[4];
    const std::int32_t code = code_point(c);
    const auto n = utf8proc_encode_char(upper ? utf8proc_toupper(code) : utf8proc_tolower(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(n));
  }
  return out;
}

RLCORE_INLINE std::string capitalize(std::string_view s, bool every_word) {
  std::string out;
  bool start = true;
  for (const std::string_view c : characters(s)) {
    out += change_case(c, start);
    const auto category = utf8proc_category(code_point(c));
    start = every_word && category != UTF8PROC_CATEGORY_LU && category != UTF8PROC_CATEGORY_LL &&
            category != UTF8PROC_CATEGORY_LT && category != UTF8PROC_CATEGORY_LO && category != UTF8PROC_CATEGORY_LM;
  }
  return out;
}

RLCORE_INLINE std::vector<std::string> split(std::string_view s, const std::string* separator, std::int64_t most) {
  std::vector<std::string> out;
  if (separator != nullptr) {
    for (std::size_t at; most != 0 && (at = find_text(s, *separator)) != s.npos; --most) {
      out.emplace_back(s.substr(0, at));
      s.remove_prefix(at + separator->size());
    }
    out.emplace_back(s);
    return out;
  }
  for (s = strip(s, nullptr, true, false); !s.empty(); s = strip(s, nullptr, true, false), --most) {
    if (most == 0) {
      out.emplace_back(s);
      break;
    }
    std::size_t end = 0;
    while (end < s.size() && !is_space(s.substr(end, bytes_of_character(s[end])))) end += bytes_of_character(s[end]);
    out.emplace_back(s.substr(0, end));
    s.remove_prefix(std::min(end, s.size()));
  }
  return out;
}

RLCORE_INLINE std::vector<std::string> split_from_end(std::string_view s, std::string_view separator,
                                                      std::int64_t most) {
  std::vector<std::string> out;
  for (std::size_t at; most != 0 && (at = s.rfind(separator)) != s.npos; --most) {
    out.emplace_back(s.substr(at + separator.size()));
    s = s.substr(0, at);
  }
  out.emplace_back(s);
  std::reverse(out.begin(), out.end());
  return out;
}

RLCORE_INLINE std::string replace(std::string_view s, std::string_view from, std::string_view to, std::int64_t most) {
  std::string out;
  if (from.empty()) {
    for (const std::string_view c : characters(s)) (out += most-- != 0 ? to : std::string_view()) += c;
    return most != 0 ? out.append(to) : out;
  }
  for (std::size_t at; most != 0 && (at = find_text(s, from)) != s.npos; --most) {
    (out += s.substr(0, at)) += to;
    s.remove_prefix(at + from.size());
  }
  return out += s;
}

RLCORE_INLINE std::vector<std::size_t> slice_positions(std::size_t size, const std::int64_t* start,
                                                       const std::int64_t* stop, std::int64_t step) {
  const auto n = static_cast<std::int64_t>(size);
  const auto place = [&](const std::int64_t* at, std::int64_t otherwise) {
    if (at == nullptr) return otherwise;
    const std::int64_t i = *at < 0 ? std::max(*at, -n - 1) + n : *at;
    return std::clamp<std::int64_t>(i, step < 0 ? -1 : 0, step < 0 ? n - 1 : n);
  };
  const std::int64_t first = place(start, step < 0 ? n - 1 : 0), last = place(stop, step < 0 ? -1 : n);
  std::vector<std::size_t> out;
  step = std::clamp<std::int64_t>(step, -n - 1, n + 1);
  for (std::int64_t i = first; step < 0 ? i > last : i < last; i += step) out.push_back(static_cast<std::size_t>(i));
  return out;
}

}  // namespace text::jinja
RLCORE_END
#endif
