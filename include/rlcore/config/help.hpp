// What --help and --cfg job print.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/registry.hpp"

RLCORE_BEGIN
namespace trainer {

namespace detail {

/// The heading a key stands under: its first part, its first two under actor_rollout_ref, none for a key of one part.
inline std::string_view section_of(std::string_view name) {
  std::size_t dot = name.find('.');
  if (dot == name.npos) return {};
  if (name.starts_with("actor_rollout_ref.")) {
    const std::size_t second = name.find('.', dot + 1);
    if (second != name.npos) dot = second;
  }
  return name.substr(0, dot);
}

inline std::string padded(std::string text, std::size_t width) {
  const auto inside = std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) == 0x80; });  // of UTF-8
  const std::size_t columns = text.size() - static_cast<std::size_t>(inside);
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

/// `words` broken into lines of at most 118 characters, each after two blanks.
inline std::string wrapped(const std::vector<std::string>& words) {
  std::string out, line;
  for (const std::string& word : words) {
    if (!line.empty() && line.size() + word.size() + 4 > 118) out += "  " + line + "\n", line.clear();
    line += (line.empty() ? "" : "  ") + word;
  }
  return line.empty() ? out : out + "  " + line + "\n";
}

/// The words of a|b|c on lines of at most 118 letters; the first one stands behind `indent` letters, others under it.
inline std::string choices_text(std::string_view choices, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  while (!choices.empty()) {
    const std::string_view word = choices.substr(0, choices.find('|'));
    if (column > indent && column + 1 + word.size() > 118) out += "\n" + std::string(column = indent, ' ');
    out += column > indent ? " " + std::string(word) : std::string(word);
    column += word.size() + 1;
    choices.remove_prefix(std::min(choices.size(), word.size() + 1));
  }
  return out;
}

/// `--name VALUE VALUE`: a flag with a word for each value that follows.
inline std::string flag_usage(const flag& f) {
  std::string out = "--" + std::string(f.name);
  if (f.count == flag::any_count) return out + " [VALUE ...]";
  if (f.count == flag::append) return out + " VALUE ...";
  for (int i = 0; i < f.count; ++i) out += " VALUE";
  return out;
}

/// ` FOLDER`, ` [FOLDER]` or ` FILE ...`: the words that set a key.
inline std::string positional_usage(const positional& p) {
  std::string out;
  for (const char c : p.key) out += static_cast<char>(override_lexer::letter(c) ? c & ~0x20 : c);
  if (p.at_most > 1) out += " ...";
  return p.at_least == 0 ? "[" + out + "]" : out;
}

/// The flags that are named otherwise than their keys.
inline std::string aliases_text(const registry& known) {
  std::string out;
  std::size_t width = 0;
  std::vector<const flag*> rows;
  for (const flag& f : known.flags()) {
    const key* target = known.find(f.key);
    if (f.name == f.key || target == nullptr || target->use != disposition::honoured) continue;
    rows.push_back(&f);
    width = std::max(width, flag_usage(f).size());
  }
  for (const flag* f : rows)
    out += "  " + padded(flag_usage(*f), width) + "  " + std::string(f->key) +
           (f->count == flag::switch_only ? "=" + std::string(f->bare) : "") + "\n";
  return out.empty() ? out : "\nFlags, read by the rules of argparse, and the keys they set\n" + out;
}

/// A scalar as YAML: quoted where a plain word would read back as something else.
inline std::string yaml_scalar(const value& v) {
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

inline void write_yaml(std::string& out, const value& v, std::size_t depth) {
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

}  // namespace detail

/// A configuration as YAML with two blanks per level.
inline std::string to_yaml(const value& root) {
  std::string out;
  if (root.is_map()) detail::write_yaml(out, root, 0);
  return out;
}

namespace detail {

/// The first lines of the page: usage, details and the options that every program has.
inline std::string usage_text(const registry& known) {
  std::string out = known.program + ": " + known.summary + "\n\nUsage: " + known.program;
  for (const positional& p : known.positionals()) out += " " + positional_usage(p);
  out +=
      " [key=value ...] [options]\n\n" + known.details + (known.details.empty() ? "" : "\n") +
      (known.flags().empty() ? ""
                             : "  --flag value         set the key of a flag (--flag=value too; some are switches)\n") +
      "  key=value            set a key; the last of several wins. Lists: [a,b]; maps: {a:b}; quotes 'a, b'; null\n"
      "  +key=value           add a member to a free-form map (++ add or set, ~key remove)\n"
      "  --help               this page\n"
      "  --cfg job            print all settings as YAML and stop\n";
  if (!known.config_names.empty()) out += "  --config-name NAME   table of defaults (";
  for (std::size_t i = 0; i < known.config_names.size(); ++i) out += (i == 0 ? "" : ", ") + known.config_names[i];
  if (!known.config_names.empty()) out += ")\n  --config-path PATH   accepted, not read\n";
  return out + "  --version            print the version\n";
}

/// The keys of a section that do something, with defaults, meanings and choices; nothing if there are none.
inline std::string section_text(const registry& known, const std::string& section) {
  std::vector<const key*> rows;
  const std::size_t front = section.empty() ? 0 : section.size() + 1;
  const auto shown = [&](const key& k) {
    const auto same = [&](const flag& f) { return f.name == k.name; };
    return (section.empty() && std::any_of(known.flags().begin(), known.flags().end(), same) ? "--" : "") +
           std::string(k.name.substr(front));
  };
  std::size_t width = 0, default_width = 0;
  for (const key& k : known.keys())
    if (k.use == disposition::honoured && section_of(k.name) == section) {
      rows.push_back(&k);
      width = std::max(width, shown(k).size());
      default_width = std::max(default_width, k.fallback.size() <= 24 ? k.fallback.size() : 0);
    }
  if (rows.empty()) return {};
  std::string out = section.empty() ? "\nFlags; name=value sets the same\n" : "\n" + section + ".*\n";
  for (const key* k : rows) {
    const std::string indent(4 + width + default_width + 2, ' ');
    const std::string head = "  " + padded(shown(*k), width) + "  ";
    if (k->fallback.size() > default_width) {
      out += head + std::string(k->fallback) + "\n" + indent;
    } else {
      out += head + padded(std::string(k->fallback), default_width) + "  ";
    }
    out += std::string(k->meaning) + "\n";
    if (!k->limits.choices.empty())
      out += indent + "one of: " + choices_text(k->limits.choices, indent.size() + 8) + "\n";
  }
  return out;
}

/// The names of the keys of one disposition under a heading; nothing if there are none.
inline std::string names_text(const registry& known, const std::string& heading, disposition use, bool with_default) {
  std::vector<std::string> words;
  for (const key& k : known.keys())
    if (k.use == use) words.push_back(std::string(k.name) + (with_default ? "=" + std::string(k.fallback) : ""));
  return words.empty() ? std::string() : "\n" + heading + ":\n" + wrapped(words);
}

}  // namespace detail

/// The page of --help: keys that do something in full, by section; the others by name.
inline std::string help_text(const registry& known) {
  std::string out = detail::usage_text(known) + detail::aliases_text(known);
  std::vector<std::string> sections;
  for (const key& k : known.keys()) {
    const std::string name(detail::section_of(k.name));
    if (std::find(sections.begin(), sections.end(), name) == sections.end()) sections.push_back(name);
  }
  for (const std::string& section : sections) out += detail::section_text(known, section);
  out += detail::names_text(known, "Accepted and checked, without effect on this device", disposition::accepted, false);
  out += detail::names_text(known, "Only this value is in this build yet", disposition::fixed, true);
  out += detail::names_text(known, "Known from other trainers, not used by this program", disposition::unused, false);
  return out;
}

}  // namespace trainer
RLCORE_END
