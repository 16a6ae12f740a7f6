// A Jinja template in a form in which two spellings of the same template are equal.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace text {

/// The canonical form of a Jinja template under the settings of transformers (trim_blocks, lstrip_blocks): white space
/// that Jinja drops is dropped, string literals lose quotes and escapes (marked by \x01), x['y'] becomes x.y, comments
/// go. Templates of equal form render equally; the converse does not hold.
inline std::string jinja_form(std::string_view source) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  std::string out;
  if (!source.empty() && source.back() == '\n') source.remove_suffix(1);
  for (std::size_t at = 0; at < source.size();) {
    const std::string_view rest = source.substr(at);
    const char kind = rest.size() > 1 && rest[0] == '{' ? rest[1] : '\0';
    if (kind != '%' && kind != '{' && kind != '#') {
      out += source[at++];
      continue;
    }
    std::size_t line = at;  // where the blanks before this tag begin
    while (line > 0 && (source[line - 1] == ' ' || source[line - 1] == '\t')) --line;
    at += 2;
    if (at < source.size() && source[at] == '-') {
      ++at;
      while (!out.empty() && space(out.back())) out.pop_back();
    } else if (kind != '{' && (line == 0 || source[line - 1] == '\n')) {  // lstrip_blocks: first on its line
      while (!out.empty() && (out.back() == ' ' || out.back() == '\t')) out.pop_back();
    }
    const std::string close = std::string(1, kind == '{' ? '}' : kind) + '}';
    std::string inside;
    bool trim = false;
    while (at < source.size()) {
      if (source.substr(at, 2) == close || (source[at] == '-' && source.substr(at + 1, 2) == close)) {
        trim = source[at] == '-';
        at += trim ? 3 : 2;
        break;
      }
      const char c = source[at++];
      if (kind != '#' && (c == '\'' || c == '"')) {
        std::string literal;
        for (; at < source.size() && source[at] != c; ++at) {
          if (source[at] == '\\' && at + 1 < source.size()) {
            const char escaped = source[++at];
            literal += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
          } else {
            literal += source[at];
          }
        }
        ++at;
        const bool subscript = !inside.empty() && inside.back() == '[' && at < source.size() && source[at] == ']';
        if (subscript) {
          inside.back() = '.';
          inside += literal;
          ++at;
        } else {
          inside += '\x01' + literal + '\x01';
        }
      } else if (!space(c)) {
        inside += c;
      } else if (!inside.empty() &&
                 (std::isalnum(static_cast<unsigned char>(inside.back())) != 0 || inside.back() == '_') &&
                 at < source.size() && (std::isalnum(static_cast<unsigned char>(source[at])) != 0)) {
        inside += ' ';  // between two words
      }
    }
    if (kind != '#') out += std::string("{") + kind + inside + close;
    if (trim) {
      while (at < source.size() && space(source[at])) ++at;
    } else if (kind != '{' && at < source.size() && source[at] == '\n') {
      ++at;  // trim_blocks
    }
  }
  return out;
}

/// 64-bit FNV-1a hash.
constexpr std::uint64_t fnv1a(std::string_view bytes) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return hash;
}

}  // namespace text
RLCORE_END
