// JSON as Python's json.dumps writes it, which is what chat templates were trained on.
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

}  // namespace text
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TEXT)
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
RLCORE_END
#endif
