// Configuration as YAML: the output of --cfg job.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/grammar/value.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// A scalar as YAML, quoted if the plain word would be read back as a different value.
std::string yaml_scalar(const value& v);

void write_yaml(std::string& out, const value& v, std::size_t depth);

}  // namespace detail

/// A configuration as YAML with two blanks per level.
inline std::string to_yaml(const value& root) {
  std::string out;
  if (root.is_map()) detail::write_yaml(out, root, 0);
  return out;
}

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer::detail {

RLCORE_INLINE std::string yaml_scalar(const value& v) {
  if (v.is_null()) return "null";
  if (const bool* x = v.as<bool>()) return *x ? "true" : "false";
  if (const double* x = v.as<double>(); x != nullptr && !std::isfinite(*x))
    return std::isnan(*x) ? ".nan" : *x < 0 ? "-.inf" : ".inf";
  const auto* text = v.as<std::string>();
  if (text == nullptr) return scalar_text(v);
  bool plain = !text->empty() && (override_lexer::letter(text->front()) ||
                                  std::string_view("/_.").find(text->front()) != std::string_view::npos);
  for (const char c : *text)
    plain = plain && (override_lexer::letter(c) || override_lexer::digit(c) ||
                      std::string_view("/_.-+").find(c) != std::string_view::npos);
  if (plain) {
    std::string lower;
    for (const char c : *text) lower += static_cast<char>(override_lexer::letter(c) ? c | 0x20 : c);
    for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan", "nan", "inf"})
      plain = plain && lower != word;
    plain = plain && !(text->front() == '.' && text->size() > 1 && override_lexer::digit((*text)[1]));
  }
  if (plain) return *text;
  std::string out = "'";
  for (const char c : *text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

RLCORE_INLINE void write_yaml(std::string& out, const value& v, std::size_t depth) {
  const std::string indent(2 * depth, ' ');
  for (const member& m : *v.as<value::map>()) {
    const auto* members = m.item.as<value::map>();
    const auto* items = m.item.as<value::list>();
    out += indent + m.name + ":";
    if (members != nullptr && !members->empty()) {
      out += "\n";
      write_yaml(out, m.item, depth + 1);
    } else if (members != nullptr) {
      out += " {}\n";
    } else if (items != nullptr) {
      if (items->empty()) out += " []";
      out += "\n";
      for (const value& item : *items)
        out += indent + "- " + (item.is_scalar() ? yaml_scalar(item) : inline_text(item)) + "\n";
    } else {
      out += " " + yaml_scalar(m.item) + "\n";
    }
  }
}

}  // namespace trainer::detail
RLCORE_END
#endif
