// The alphabet of byte-level BPE: every byte has one printable character, so that a vocabulary is plain text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

/// Bytes <-> characters as in GPT-2 (Radford et al. 2019): the printable Latin-1 bytes stand for themselves, the other
/// 68 follow in order from U+0100 on.
class byte_alphabet {
 public:
  constexpr byte_alphabet() {
    for (auto& byte : bytes_) byte = -1;
    char32_t next = 0x100;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      const char32_t character = printable ? static_cast<char32_t>(byte) : next++;
      characters_[byte] = character;
      bytes_[character] = static_cast<std::int16_t>(byte);
    }
  }

  /// The character that stands for `byte`.
  constexpr char32_t character(std::uint8_t byte) const noexcept { return characters_[byte]; }

  /// The byte that `character` stands for, or -1.
  constexpr int byte(char32_t character) const noexcept { return character < bytes_.size() ? bytes_[character] : -1; }

  /// The text that stands for `bytes`.
  std::string spell(std::string_view bytes) const {
    std::string text;
    for (const char byte : bytes) append_utf8(text, character(static_cast<std::uint8_t>(byte)));
    return text;
  }

  /// The bytes that valid UTF-8 `text` stands for; nothing if a character is not of the alphabet.
  std::optional<std::string> unspell(std::string_view text) const {
    std::string bytes;
    for (std::size_t at = 0; at < text.size();) {
      const utf8_step step = read_utf8(text, at);
      const int value = step.type == utf8_step::kind::character ? byte(step.code_point) : -1;
      if (value < 0) return std::nullopt;
      bytes += static_cast<char>(value);
      at += step.length;
    }
    return bytes;
  }

 private:
  std::array<char32_t, 256> characters_{};
  std::array<std::int16_t, 0x144> bytes_{};
};

}  // namespace text
RLCORE_END
