// Python's str methods on UTF-8, for rules that are defined by them. Linear; bytes that are not UTF-8 are kept.
#pragma once

#include <algorithm>
#include <array>
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

/// Lower case of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic letters; others stay.
std::string lower_letters(std::string_view text);

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// The code point at `at`, which must be inside; a byte that starts none is its own.
constexpr std::uint32_t code_point(std::string_view text, std::size_t at) noexcept {
  const std::size_t bytes = code_point_bytes(text, at);
  auto code = static_cast<std::uint32_t>(static_cast<unsigned char>(text[at]));
  if (bytes == 1) return code;
  code &= 0x7FU >> bytes;
  for (std::size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<std::uint32_t>(text[at + i]) & 0x3F);
  return code;
}

/// Bytes of the letter (str.isalpha) at `at`, 0 if there is none. Scripts count as a whole, with their signs.
std::size_t letter_bytes(std::string_view text, std::size_t at) noexcept;

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

RLCORE_INLINE std::size_t letter_bytes(std::string_view text, std::size_t at) noexcept {
  if (at >= text.size()) return 0;
  static constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 45> letters{
      {{'A', 'Z'},       {'a', 'z'},       {0xAA, 0xAA},      {0xB5, 0xB5},     {0xBA, 0xBA},     {0xC0, 0xD6},
       {0xD8, 0xF6},     {0xF8, 0x2C1},    {0x370, 0x374},    {0x376, 0x37D},   {0x386, 0x386},   {0x388, 0x3F5},
       {0x3F7, 0x481},   {0x48A, 0x559},   {0x560, 0x588},    {0x5D0, 0x5F2},   {0x620, 0x1FFC},  {0x2071, 0x2071},
       {0x207F, 0x207F}, {0x2090, 0x209C}, {0x2102, 0x2102},  {0x2107, 0x2107}, {0x210A, 0x2113}, {0x2115, 0x2115},
       {0x2119, 0x211D}, {0x2124, 0x2124}, {0x2126, 0x2126},  {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2139},
       {0x213C, 0x213F}, {0x2145, 0x2149}, {0x2C00, 0x2DDE},  {0x3005, 0x3006}, {0x3031, 0x3035}, {0x3041, 0x3096},
       {0x309D, 0x318E}, {0x31A0, 0x31FF}, {0x3400, 0xA48C},  {0xA4D0, 0xD7FB}, {0xF900, 0xFDFB}, {0xFE70, 0xFEFC},
       {0xFF21, 0xFF3A}, {0xFF41, 0xFFDC}, {0x1D400, 0x2FA1D}}};
  const std::uint32_t code = code_point(text, at);
  const std::size_t bytes = code_point_bytes(text, at);
  if (bytes == 1 && code >= 0x80) return 0;
  const bool is_letter = std::any_of(letters.begin(), letters.end(),
                                     [&](const auto& range) { return range.first <= code && code <= range.second; });
  return is_letter ? bytes : 0;
}

RLCORE_INLINE std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

RLCORE_INLINE std::string lower_letters(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = code_point_bytes(text, at);
    if (bytes != 2) {
      out += lower(text.substr(at, bytes));
      at += bytes;
      continue;
    }
    std::uint32_t c =
        (static_cast<std::uint32_t>(text[at]) & 0x1F) << 6 | (static_cast<std::uint32_t>(text[at + 1]) & 0x3F);
    at += 2;
    const bool even = c % 2 == 0;
    if (c == 0x130) {  // capital I with a dot: i and the dot
      out += "i\xCC\x87";
      continue;
    }
    if ((c >= 0xC0 && c <= 0xDE && c != 0xD7) || (c >= 0x391 && c <= 0x3AB && c != 0x3A2) || (c >= 0x410 && c <= 0x42F))
      c += 0x20;
    else if (c == 0x178)
      c = 0xFF;
    else if ((c >= 0x100 && c <= 0x137 && even) || (c >= 0x139 && c <= 0x148 && !even) ||
             (c >= 0x14A && c <= 0x177 && even) || (c >= 0x179 && c <= 0x17E && !even))
      c += 1;
    else if (c >= 0x400 && c <= 0x40F)
      c += 0x50;
    else if (c == 0x386)  // Greek with an accent
      c = 0x3AC;
    else if (c >= 0x388 && c <= 0x38A)
      c += 0x25;
    else if (c == 0x38C)
      c = 0x3CC;
    else if (c == 0x38E || c == 0x38F)
      c += 0x3F;
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
  return out;
}

}  // namespace verify::detail
RLCORE_END
#endif
