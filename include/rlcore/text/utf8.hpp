// UTF-8, and the byte alphabet of GPT-2's tokenizers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace text {

/// Where `part` begins in `text`, from byte `from` on; npos if it is not there. Takes time linear in both, which
/// text.find(part) does not.
inline std::size_t find_text(std::string_view text, std::string_view part, std::size_t from = 0) noexcept {
  if (from > text.size()) return text.npos;
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found == nullptr ? text.npos : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

/// One step of reading a byte string as UTF-8.
struct utf8_step {
  /// A whole character, a broken part, or a character that the string's end cuts off.
  enum class kind : std::uint8_t { character, broken, cut_off };

  kind type = kind::broken;  ///< cut_off: valid so far, but the string ends inside the character
  std::uint8_t length = 1;   ///< bytes of the character, or of the maximal broken part
  char32_t code_point = 0xFFFD;
};

/// Reads one character of `bytes` at `at` (< size). A broken part is the longest start of a valid character
/// ("maximal subpart", Unicode 15 section 3.9), so that each becomes exactly one U+FFFD.
inline utf8_step read_utf8(std::string_view bytes, std::size_t at) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[at + i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return {utf8_step::kind::character, 1, first};
  std::uint8_t need = 0, low = 0x80, high = 0xBF;
  char32_t value = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    need = 1, value = first & 0x1Fu;
  } else if (first >= 0xE0 && first <= 0xEF) {
    need = 2, value = first & 0x0Fu;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    need = 3, value = first & 0x07u;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {};
  }
  for (std::uint8_t i = 1; i <= need; ++i) {
    if (at + i >= bytes.size()) return {utf8_step::kind::cut_off, i, 0xFFFD};
    const std::uint8_t next = byte(i);
    if (next < low || next > high) return {utf8_step::kind::broken, i, 0xFFFD};
    value = (value << 6) | (next & 0x3Fu);
    low = 0x80, high = 0xBF;
  }
  return {utf8_step::kind::character, static_cast<std::uint8_t>(need + 1), value};
}

/// Appends `code_point` (a Unicode scalar value) to `text` as UTF-8.
inline void append_utf8(std::string& text, char32_t code_point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xC0 | (code_point >> 6)), add(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    add(0xE0 | (code_point >> 12)), add(0x80 | ((code_point >> 6) & 0x3F)), add(0x80 | (code_point & 0x3F));
  } else {
    add(0xF0 | (code_point >> 18)), add(0x80 | ((code_point >> 12) & 0x3F));
    add(0x80 | ((code_point >> 6) & 0x3F)), add(0x80 | (code_point & 0x3F));
  }
}

/// The first byte that does not belong to a valid character; the size if all of `bytes` is valid UTF-8.
inline std::size_t first_broken_utf8(std::string_view bytes) noexcept {
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (static_cast<std::uint8_t>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const utf8_step step = read_utf8(bytes, at);
    if (step.type != utf8_step::kind::character) return at;
    at += step.length;
  }
  return at;
}

/// Throws data_error with the byte's position unless `bytes` is valid UTF-8.
inline void require_utf8(std::string_view bytes) {
  const std::size_t at = first_broken_utf8(bytes);
  if (at == bytes.size()) return;
  throw data_error("text is not valid UTF-8 at byte " + std::to_string(at) + " of " + std::to_string(bytes.size()) +
                   "; expected valid UTF-8 (rlcore::text::utf8_lossy replaces broken parts)");
}

/// `bytes` with every broken part (and a cut-off end) replaced by U+FFFD.
inline std::string utf8_lossy(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const utf8_step step = read_utf8(bytes, at);
    if (step.type == utf8_step::kind::character) {
      text.append(bytes.substr(at, step.length));
    } else {
      text += "\xEF\xBF\xBD";
    }
    at += step.length;
  }
  return text;
}

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
