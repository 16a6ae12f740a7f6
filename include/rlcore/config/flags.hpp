// `--flag value` on the command line: the rules of Python's argparse, for a registry that has flags.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace train {

/// One flag as it was written, with the texts that belong to it.
struct written_flag {
  const flag* rule;
  std::vector<std::string> texts;
};

namespace detail {

bool is_number(std::string_view text);

/// True if an argument can be the value of a flag: it has no dash in front, is a negative number, the single dash, or
/// holds a blank.
inline bool is_operand(const std::string& argument) {
  return !argument.starts_with('-') || argument == "-" || argument.find(' ') != argument.npos || is_number(argument);
}

/// True for key=value with a key that is known: the end of a list of values.
inline bool is_setting(const registry& known, std::string_view argument) {
  while (argument.starts_with('+') || argument.starts_with('~')) argument.remove_prefix(1);
  const std::string_view name = argument.substr(0, argument.find('='));
  return name.size() < argument.size() && (known.find(name) != nullptr || known.is_section(name));
}

/// The text itself, also where it reads like a reference ${...}.
std::string literal(const std::string& text);

/// One text after a flag, read by the type of its key.
value typed_text(key_type type, const std::string& text);

/// True for a word that means on or off, often typed after a switch.
inline bool is_truth(std::string word) {
  for (char& c : word) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return word == "true" || word == "false";
}

[[noreturn]] inline void refuse_value(const flag& rule, std::string_view text) {
  throw config_error("--" + std::string(rule.name) + " takes no value, got '" + std::string(text) +
                     "'; to set it, write " + std::string(rule.key) + "=" +
                     (rule.bare == "True" && is_truth(std::string(text)) ? std::string(text) : "..."));
}

inline std::string count_text(int count) { return count == 1 ? "a value" : std::to_string(count) + " values"; }

}  // namespace detail

/// The flag called `name`, or the only one that starts with it (argparse's abbreviations). Throws config_error.
const flag& find_flag(const registry& known, std::string_view name);

/// Reads the flag at arguments[next] and what belongs to it; `next` moves past the last word taken. Throws
/// config_error: unknown or ambiguous flag, missing or superfluous values.
written_flag read_flag(const registry& known, const std::vector<std::string>& arguments, std::size_t& next);

/// Converts a flag to an override of its key; the value has been checked. Throws config_error naming the flag.
override_setting flag_setting(const registry& known, const written_flag& written);

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train::detail {

RLCORE_INLINE bool is_number(std::string_view text) {
  try {
    const value v = parse_value(text);
    return v.as<std::int64_t>() != nullptr || v.as<double>() != nullptr;
  } catch (const config_error&) {
    return false;
  }
}

RLCORE_INLINE std::string literal(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) out += '\\';
    out += text[i];
  }
  return out;
}

RLCORE_INLINE value typed_text(key_type type, const std::string& text) {
  if (type == key_type::text || type == key_type::texts) return value(literal(text));
  try {
    return parse_value(text);
  } catch (const config_error&) {
    return value(literal(text));  // the type check reports the error
  }
}

}  // namespace train::detail

namespace train {

RLCORE_INLINE const flag& find_flag(const registry& known, std::string_view name) {
  const flag* found = nullptr;
  std::vector<std::string_view> names;
  std::vector<std::string> starting;
  for (const flag& f : known.flags()) {
    if (f.name == name) return f;
    names.push_back(f.name);
    if (!name.empty() && f.name.starts_with(name)) found = &f, starting.emplace_back(f.name);
  }
  if (starting.size() == 1) return *found;
  if (name.find('.') != name.npos && known.find(name) != nullptr)
    throw config_error("'--" + std::string(name) + "' is a key and no flag; expected " + std::string(name) + "=value");
  std::string hint;
  if (starting.empty()) {
    for (const char* further : {"help", "version", "cfg", "resolve", "config-name", "config-path", "config-dir"})
      names.push_back(further);
    starting = nearest(name, names);
  }
  const bool several = found != nullptr;
  for (std::size_t i = 0; i < starting.size() && i < 4; ++i)
    hint += (i == 0 ? several ? ": it may mean '--" : " (did you mean '--" : "' or '--") + starting[i];
  if (!hint.empty()) hint += several ? "'" : "'?)";
  throw config_error((several ? "ambiguous flag '--" : "unknown flag '--") + std::string(name) + "'" + hint +
                     (several ? "" : "; see --help"));
}

RLCORE_INLINE written_flag read_flag(const registry& known, const std::vector<std::string>& arguments,
                                     std::size_t& next) {
  const std::string_view word = std::string_view(arguments[next++]).substr(2);
  const std::size_t equal = word.find('=');
  written_flag result{&find_flag(known, word.substr(0, equal)), {}};
  const flag& rule = *result.rule;
  const std::string name = "--" + std::string(rule.name);
  if (equal != word.npos) {
    if (rule.count == flag::switch_only) detail::refuse_value(rule, word.substr(equal + 1));
    result.texts.emplace_back(word.substr(equal + 1));
    if (rule.count > 1) throw config_error(name + " takes " + detail::count_text(rule.count) + ", got 1");
    return result;
  }
  if (rule.count == flag::switch_only && next < arguments.size() && detail::is_truth(arguments[next]))
    detail::refuse_value(rule, arguments[next]);
  const int count = rule.count == flag::append ? 1 : rule.count;
  const auto wanted = static_cast<std::size_t>(count == flag::any_count ? 1 << 30 : count);
  while (result.texts.size() < wanted && next < arguments.size() && detail::is_operand(arguments[next])) {
    if (rule.count == flag::any_count && detail::is_setting(known, arguments[next])) break;
    result.texts.push_back(arguments[next++]);
  }
  if (count > 0 && result.texts.size() < wanted)
    throw config_error(name + " needs " + detail::count_text(count) +
                       (count > 1 ? ", got " + std::to_string(result.texts.size()) : "") +
                       (next < arguments.size() ? " before '" + arguments[next] + "'" : ""));
  return result;
}

RLCORE_INLINE override_setting flag_setting(const registry& known, const written_flag& written) {
  const flag& rule = *written.rule;
  const key* target = known.find(rule.key);
  require(target != nullptr, "a flag sets a key that is not in the registry");
  override_setting out;
  out.kind = override_kind::force_add;
  out.key = std::string(rule.key);
  if (rule.count == flag::switch_only) {
    out.item = parse_value(rule.bare);
    return out;
  }
  const key_type type = rule.transform != nullptr ? key_type::texts : target->type;
  if (rule.count == 1) {
    out.item = detail::typed_text(type, written.texts.front());
  } else {
    value::list items;
    for (const std::string& text : written.texts) items.push_back(detail::typed_text(type, text));
    out.item = value(std::move(items));
  }
  const std::string name = "--" + std::string(rule.name);
  if (rule.transform != nullptr) {
    out.item = rule.transform(out.item);
    return out;
  }
  key named = *target;
  named.name = name;
  check_value(named, out.item);
  return out;
}

}  // namespace train
RLCORE_END
#endif
