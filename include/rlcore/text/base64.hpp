// Base64 encoding and decoding (RFC 4648).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

inline constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes bytes, with `=` padding.
std::string to_base64(std::span<const unsigned char> bytes);

/// Decodes a text; ignores white space, and `=` may be missing. Unset for any other character, and if the text ends
/// within a byte.
std::optional<std::vector<unsigned char>> from_base64(std::string_view text);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string to_base64(std::span<const unsigned char> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k) three = three << 8 | (i + k < bytes.size() ? bytes[i + k] : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? base64_digits[three >> (18 - 6 * k) & 63u] : '=';
  }
  return text;
}

RLCORE_INLINE std::optional<std::vector<unsigned char>> from_base64(std::string_view text) {
  static constexpr auto value_of = [] {
    std::array<std::uint8_t, 256> values{};
    for (auto& v : values) v = 64;
    for (std::size_t i = 0; i < base64_digits.size(); ++i)
      values[static_cast<unsigned char>(base64_digits[i])] = static_cast<std::uint8_t>(i);
    return values;
  }();
  std::vector<unsigned char> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  std::size_t count = 0, filling = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    const std::uint32_t digit = value_of[static_cast<unsigned char>(c)];
    if (c == '=' && count % 4 >= 2 && filling < 2) {
      ++filling;
      continue;
    }
    if (digit == 64 || filling > 0) return std::nullopt;
    bits = bits << 6 | digit;
    if (++count % 4 != 1)
      bytes.push_back(static_cast<unsigned char>(bits >> (count % 4 == 2 ? 4 : count % 4 == 3 ? 2 : 0)));
  }
  if (count % 4 == 1 || (filling > 0 && count % 4 + filling != 4)) return std::nullopt;
  return bytes;
}

}  // namespace text
RLCORE_END
#endif
