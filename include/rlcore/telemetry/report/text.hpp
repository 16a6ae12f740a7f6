// Numbers and text for the report: the same characters on every machine.
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace trainer::html {

/// The text with &, <, > and " as HTML's entities.
std::string escape(std::string_view text);

/// `x` with `decimals` digits after the point.
std::string decimal(double x, int decimals);

/// A coordinate in the picture: one digit after the point.
inline std::string coordinate(double x) { return decimal(x, 1); }

/// `x` with about four significant digits: 0.9375, 1234, 1.5e-07, and an n-dash for a number that is not finite.
std::string brief(double x);

}  // namespace trainer::html
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_TELEMETRY)
RLCORE_BEGIN
namespace trainer::html {

RLCORE_INLINE std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

RLCORE_INLINE std::string decimal(double x, int decimals) {
  char buffer[400];
  if (x == 0) x = 0;  // no "-0"
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::fixed, decimals).ptr;
  std::string out(buffer, end);
  if (out.find_first_not_of("-0.") == std::string::npos && out.front() == '-') out.erase(0, 1);
  return out;
}

RLCORE_INLINE std::string brief(double x) {
  if (!std::isfinite(x)) return "\xE2\x80\x93";
  const double size = std::abs(x);
  if (x == 0) return "0";
  if (size >= 1000 && size < 1e7) return decimal(x, 0);
  char buffer[64];
  const auto format = size < 1e-4 || size >= 1e7 ? std::chars_format::scientific : std::chars_format::fixed;
  const int digits = format == std::chars_format::scientific ? 3 : 3 - static_cast<int>(std::floor(std::log10(size)));
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x, format, digits).ptr;
  std::string out(buffer, end), power;
  if (const std::size_t e = out.find('e'); e != out.npos) power = out.substr(e), out.resize(e);
  if (out.find('.') != out.npos) {
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
  }
  return out + power;
}

}  // namespace trainer::html
RLCORE_END
#endif
