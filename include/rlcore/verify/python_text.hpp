// Python's str methods on UTF-8, for rules that are defined by them. Linear; bytes that are not UTF-8 are kept.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace verify::detail {

/// Bytes of the code point at `at`; a byte that starts none counts as one. `at` must be inside.
constexpr std::size_t code_point_bytes(std::string_view text, std::size_t at) noexcept {
  std::size_t end = at + 1;
  while (end < text.size() && end - at < 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return (static_cast<unsigned char>(text[at]) & 0xC0) == 0xC0 ? end - at : 1;
}

/// Number of code points, but no more than `limit`.
constexpr std::size_t count_code_points(std::string_view text, std::size_t limit = ~std::size_t{0}) noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size() && count < limit; at += code_point_bytes(text, at)) ++count;
  return count;
}

/// The last `count` code points; in bytes that are not UTF-8 every byte but 10xxxxxx counts as one.
constexpr std::string_view last_code_points(std::string_view text, std::size_t count) noexcept {
  std::size_t at = text.size();
  for (; at > 0 && count > 0; --at)
    if ((static_cast<unsigned char>(text[at - 1]) & 0xC0) != 0x80) --count;
  return text.substr(at);
}

/// Bytes of the white space (str.isspace, `\s`) that starts at `at`; 0 if none does.
constexpr std::size_t space_bytes(std::string_view text, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0; };
  const auto b = byte(0);
  if ((b >= 0x09 && b <= 0x0D) || (b >= 0x1C && b <= 0x20)) return 1;
  if (b == 0xC2 && (byte(1) == 0x85 || byte(1) == 0xA0)) return 2;
  if (b == 0xE1 && byte(1) == 0x9A && byte(2) == 0x80) return 3;  // U+1680
  if (b == 0xE2 && byte(1) == 0x80 &&
      ((byte(2) >= 0x80 && byte(2) <= 0x8A) ||  // U+2000 to 200A
       byte(2) == 0xA8 || byte(2) == 0xA9 || byte(2) == 0xAF))
    return 3;
  if (b == 0xE2 && byte(1) == 0x81 && byte(2) == 0x9F) return 3;  // U+205F
  if (b == 0xE3 && byte(1) == 0x80 && byte(2) == 0x80) return 3;  // U+3000
  return 0;
}

/// str.strip()
constexpr std::string_view strip(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t bytes = space_bytes(text, 0);
    if (bytes == 0) break;
    text.remove_prefix(bytes);
  }
  for (bool found = true; found && !text.empty();) {
    found = false;
    for (std::size_t bytes = 1; bytes <= std::min<std::size_t>(3, text.size()) && !found; ++bytes)
      if (space_bytes(text, text.size() - bytes) == bytes) {
        text.remove_suffix(bytes);
        found = true;
      }
  }
  return text;
}

/// str.replace: every occurrence of `from`, left to right without overlap.
void replace_all(std::string& text, std::string_view from, std::string_view to);

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// str.split(separator)
std::vector<std::string_view> split(std::string_view text, std::string_view separator);

/// Lower case of ASCII letters; others stay.
std::string lower(std::string_view text);

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// The position of the brace that closes the first one at or after `from`; npos if none does. A closing brace before
/// any opening one must be balanced first, as in the loop of the MATH evaluation.
constexpr std::size_t closing_brace(std::string_view text, std::size_t from) noexcept {
  std::ptrdiff_t open = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '{') ++open;
    if (text[i] == '}' && --open == 0) return i;
  }
  return std::string_view::npos;
}

}  // namespace verify::detail
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_VERIFY)
RLCORE_BEGIN
namespace verify::detail {

RLCORE_INLINE void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::size_t at = text.find(from);
  if (at == std::string::npos) return;
  std::string out;
  std::size_t done = 0;
  for (; at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  out.append(text, done);
  text = std::move(out);
}

RLCORE_INLINE std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t at = text.find(separator, begin);
    parts.push_back(text.substr(begin, at == std::string_view::npos ? at : at - begin));
    if (at == std::string_view::npos) return parts;
    begin = at + separator.size();
  }
}

RLCORE_INLINE std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace verify::detail
RLCORE_END
#endif
