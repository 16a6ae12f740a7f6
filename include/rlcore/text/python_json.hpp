// JSON as Python's json.dumps writes it, which is what chat templates were trained on; texts and values as Python's
// repr.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace text {

/// A double as Python's repr writes it: shortest digits that read back equal, exponent below 1e-4 and from 1e16 on.
std::string python_float(double value);

/// Appends `text` as a JSON string with everything beyond ASCII left as it is (ensure_ascii=False).
void append_python_string(std::string& out, std::string_view text);

/// Appends json.dumps(value, ensure_ascii=False), the `tojson` of transformers' chat templates: ", " and ": " between
/// parts, keys in the order of `value` (use nlohmann::ordered_json to keep that of a file), no escapes for HTML.
template <class Json>
void append_python_json(std::string& out, const Json& value) {
  if (value.is_object()) {
    out += '{';
    const char* separator = "";
    for (const auto& [key, part] : value.items()) {
      out += separator;
      append_python_string(out, key);
      out += ": ";
      append_python_json(out, part);
      separator = ", ";
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    const char* separator = "";
    for (const auto& part : value) {
      out += separator;
      append_python_json(out, part);
      separator = ", ";
    }
    out += ']';
  } else if (value.is_string()) {
    append_python_string(out, value.template get_ref<const std::string&>());
  } else if (value.is_number_float()) {
    out += python_float(value.template get<double>());
  } else {
    out += json_text(value);
  }
}

/// json.dumps(value, ensure_ascii=False).
template <class Json>
std::string python_json(const Json& value) {
  std::string out;
  append_python_json(out, value);
  return out;
}

/// Python's repr() of a text: in single quotes, or in double quotes if only single quotes occur in it; what
/// str.isprintable() refuses is escaped. Each broken part of the UTF-8 counts as U+FFFD. Linear.
std::string python_repr(std::string_view utf8);

/// Python's str() of what json.loads makes of a JSON value: a text is itself, then True, None, 1.0, nan, [1, 'a'],
/// {'a': 1}. Big integers (big_integer()) keep their digits.
std::string python_str(const nlohmann::ordered_json& value);

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
#include <utf8proc.h>
#include <cstdint>

#include "rlcore/text/big_integer.hpp"
#include "rlcore/text/utf8.hpp"

RLCORE_BEGIN
namespace text {

RLCORE_INLINE std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  char buffer[32] = {};  // zeros end the number for atoi
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = text.find('e');
  const int exponent = std::atoi(buffer + e + 1);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  std::string out = text[0] == '-' ? "-" : "", digits;
  for (const char c : text.substr(0, e))
    if (c >= '0' && c <= '9') digits += c;
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const std::size_t whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + '.' + digits.substr(whole);
}

RLCORE_INLINE void append_python_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          constexpr char digits[] = "0123456789abcdef";
          ((out += "\\u00") += digits[c / 16]) += digits[c % 16];
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

}  // namespace text

namespace text::detail {

/// str.isprintable() of one character.
inline bool is_printable(char32_t c) noexcept {
  if (c < 0x7F) return c >= 0x20;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

/// Appends \xNN, \uNNNN or \UNNNNNNNN.
inline void append_python_escape(std::string& out, char32_t c) {
  const int digits = c <= 0xFF ? 2 : c <= 0xFFFF ? 4 : 8;
  (out += '\\') += digits == 2 ? 'x' : digits == 4 ? 'u' : 'U';
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) out += "0123456789abcdef"[c >> shift & 15];
}

inline void append_python_repr(std::string& out, std::string_view text) {
  const bool single = text.find('\'') != text.npos, both = single && text.find('"') != text.npos;
  const char quote = single && !both ? '"' : '\'';
  out += quote;
  for (std::size_t at = 0; at < text.size();) {
    const utf8_step step = read_utf8(text, at);
    const char32_t c = step.code_point;
    if (c == static_cast<unsigned char>(quote) || c == '\\')
      (out += '\\') += static_cast<char>(c);
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (!is_printable(c))
      append_python_escape(out, c);
    else
      append_utf8(out, c);
    at += step.length;
  }
  out += quote;
}

inline void append_python_repr(std::string& out, const nlohmann::ordered_json& value) {
  if (value.is_string()) {
    append_python_repr(out, std::string_view(value.get_ref<const std::string&>()));
  } else if (value.is_null() || value.is_boolean()) {
    out += value.is_null() ? "None" : value.get<bool>() ? "True" : "False";
  } else if (value.is_number_float()) {
    const double x = value.get<double>();
    out += std::isnan(x) ? "nan" : std::isinf(x) ? (x < 0 ? "-inf" : "inf") : python_float(x);
  } else if (value.is_structured()) {
    out += value.is_object() ? '{' : '[';
    const char* separator = "";
    for (const auto& [key, part] : value.items()) {
      out += separator;
      separator = ", ";
      if (value.is_object()) append_python_repr(out, std::string_view(key)), out += ": ";
      append_python_repr(out, part);
    }
    out += value.is_object() ? '}' : ']';
  } else {
    out += integer_digits(value);
  }
}

}  // namespace text::detail

namespace text {

RLCORE_INLINE std::string python_repr(std::string_view utf8) {
  std::string out;
  detail::append_python_repr(out, utf8);
  return out;
}

RLCORE_INLINE std::string python_str(const nlohmann::ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string out;
  detail::append_python_repr(out, value);
  return out;
}

}  // namespace text
RLCORE_END
#endif
