// Composes groups of options, interpolates ${...}, and prints the configuration as YAML.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/check_value.hpp"
#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/parallel/launch.hpp"

RLCORE_BEGIN
namespace train {

/// Calls f(part) for the parts of a dotted path.
template <class F>
void for_each_part(std::string_view path, F&& f) {
  for (std::size_t first = 0; first <= path.size();) {
    const std::size_t end = std::min(path.find('.', first), path.size());
    f(path.substr(first, end - first));
    first = end + 1;
  }
}

/// The node at a dotted path, or nullptr. An empty path is the root.
const value* select(const value& root, std::string_view path);

/// A map is merged into a map, member by member; anything else replaces.
void merge(value& target, const value& source, bool may_add, const std::string& path);

/// Sets `path`; missing maps on the way are created when `may_add`.
void assign(value& root, std::string_view path, const value& item, bool may_add);

/// Applies one override to a configuration. Throws config_error: unknown key (=), the item exists already (+), nothing
/// to delete or a different value (~).
void apply(value& root, const override_setting& setting);

/// Resolves references inside one configuration: ${a.b}, ${a.list[0]}, relative ${.sibling} and ${..x}, and
/// ${oc.env:NAME,default} and ${now:%Y-%m-%d}, the time of the start by strftime's letters. A text that is one
/// reference takes the type of its target; \${ is no reference.
class interpolation {
 public:
  /// `root`, a map, must outlive this object.
  explicit interpolation(const value& root) : root_(root) {}

  /// The whole configuration without references. Throws config_error: absent target, cycle.
  value run() { return resolve(root_, ""); }

  /// `v`, which stands at `path`, without references.
  value resolve(const value& v, const std::string& path);

 private:
  value resolve_text(const std::string& text, const std::string& path);

  value reference(std::string_view name, const std::string& path);

  [[noreturn]] static void absent(std::string_view name, const std::string& path) {
    throw config_error("'" + path + "': '${" + std::string(name) + "}' refers to a key that does not exist");
  }

  /// One leading dot is the map around `path`, each further one the map around that.
  static std::string absolute(std::string_view name, std::string path);

  static value environment(std::string_view arguments, const std::string& path);

  /// One instant for all references of a process.
  static value now(const std::string& format, const std::string& path);

  const value& root_;
  std::vector<std::string> active_;
};

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

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE const value* select(const value& root, std::string_view path) {
  const value* node = &root;
  if (!path.empty())
    for_each_part(path, [&](std::string_view part) {
      if (node != nullptr) node = node->find(part);
    });
  return node;
}

RLCORE_INLINE void merge(value& target, const value& source, bool may_add, const std::string& path) {
  if (!source.is_map() || !target.is_map()) {
    target = source;
    return;
  }
  for (const member& m : *source.as<value::map>()) {
    value* old = target.find(m.name);
    if (old != nullptr) {
      merge(*old, m.item, may_add, path + "." + m.name);
    } else if (may_add) {
      target.as<value::map>()->push_back(m);
    } else {
      throw config_error("unknown key '" + path + "." + m.name + "'; to add it, write +" + path + "." + m.name +
                         "=...");
    }
  }
}

RLCORE_INLINE void assign(value& root, std::string_view path, const value& item, bool may_add) {
  value* node = &root;
  for_each_part(path, [&](std::string_view part) {
    value* next = node->find(part);
    if (next == nullptr) {
      if (!may_add)
        throw config_error("unknown key '" + std::string(path) + "'; to add it, write +" + std::string(path) + "=...");
      if (!node->is_map()) *node = value(value::map{});
      node->as<value::map>()->push_back({std::string(part), {}});
      next = &node->as<value::map>()->back().item;
    }
    node = next;
  });
  merge(*node, item, may_add, std::string(path));
}

RLCORE_INLINE void apply(value& root, const override_setting& setting) {
  const value* old = select(root, setting.key);
  switch (setting.kind) {
    case override_kind::change:
      assign(root, setting.key, setting.item, false);
      return;
    case override_kind::force_add:
      assign(root, setting.key, setting.item, true);
      return;
    case override_kind::add:
      if (old != nullptr && !old->is_null() && setting.item.is_scalar())
        throw config_error("'" + setting.key + "' is already there; to override it, write ++" + setting.key + "=...");
      assign(root, setting.key, setting.item, true);
      return;
    case override_kind::remove:
      break;
  }
  if (setting.key.empty()) throw config_error("'~' names no key; expected ~key");
  if (old == nullptr) throw config_error("'" + setting.key + "' cannot be deleted: it does not exist");
  if (setting.has_value && !(*old == setting.item))
    throw config_error("'" + setting.key + "' cannot be deleted: its value is " + scalar_text(*old) + ", not " +
                       scalar_text(setting.item));
  const std::size_t dot = setting.key.rfind('.');
  const std::string parent = dot == std::string::npos ? std::string() : setting.key.substr(0, dot);
  const std::string name = dot == std::string::npos ? setting.key : setting.key.substr(dot + 1);
  auto* members = const_cast<value*>(select(root, parent))->as<value::map>();
  members->erase(std::find_if(members->begin(), members->end(), [&](const member& m) { return m.name == name; }));
}

RLCORE_INLINE value interpolation::resolve(const value& v, const std::string& path) {
  if (const auto* text = v.as<std::string>()) return resolve_text(*text, path);
  if (const auto* items = v.as<value::list>()) {
    value::list out;
    for (const value& item : *items) out.push_back(resolve(item, path + "[]"));
    return value(std::move(out));
  }
  if (const auto* members = v.as<value::map>()) {
    value::map out;
    for (const member& m : *members)
      out.push_back({m.name, resolve(m.item, path.empty() ? m.name : path + "." + m.name)});
    return value(std::move(out));
  }
  return v;
}

RLCORE_INLINE value interpolation::resolve_text(const std::string& text, const std::string& path) {
  if (text.find("${") == std::string::npos) return value(text);
  if (active_.size() > 32) throw config_error("'" + path + "': the references ${...} go in a circle");
  active_.push_back(path);
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (text.compare(i, 3, "\\${") == 0) {
      out += "${";
      i += 3;
    } else if (text.compare(i, 2, "${") == 0) {
      const std::size_t end = text.find('}', i);
      if (end == std::string::npos) throw config_error("'" + path + "': '${' without '}' in '" + text + "'");
      value target = reference(std::string_view(text).substr(i + 2, end - i - 2), path);
      if (i == 0 && end + 1 == text.size()) {
        active_.pop_back();
        return target;
      }
      if (!target.is_scalar())
        throw config_error("'" + path + "': " + std::string(kind_of(target)) + " cannot be part of the text '" + text +
                           "'");
      out += scalar_text(target);
      i = end + 1;
    } else {
      out += text[i++];
    }
  }
  active_.pop_back();
  return value(std::move(out));
}

RLCORE_INLINE value interpolation::reference(std::string_view name, const std::string& path) {
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  if (name.starts_with("oc.env:")) return environment(name.substr(7), path);
  if (name.starts_with("now:")) return now(std::string(name.substr(4)), path);
  if (name.find(':') != name.npos)
    throw config_error("'" + path + "': unknown resolver in '${" + std::string(name) +
                       "}'; expected a key, oc.env:NAME or now:FORMAT");
  const std::string full = absolute(name, path);
  std::string_view where = full;
  std::vector<std::size_t> indices;
  if (const std::size_t bracket = where.find('['); bracket != where.npos) {
    for (std::size_t i = bracket; i < where.size();) {
      const std::size_t close = where.find(']', i);
      if (where[i] != '[' || close == where.npos || close == i + 1) absent(name, path);
      std::size_t index = 0;
      for (const char c : where.substr(i + 1, close - i - 1)) {
        if (!override_lexer::digit(c) || index > 1000000) absent(name, path);
        index = index * 10 + static_cast<std::size_t>(c - '0');
      }
      indices.push_back(index);
      i = close + 1;
    }
    where = where.substr(0, bracket);
  }
  const value* node = select(root_, where);
  for (const std::size_t index : indices) {
    const auto* items = node == nullptr ? nullptr : node->as<value::list>();
    node = items == nullptr || index >= items->size() ? nullptr : &(*items)[index];
  }
  if (node == nullptr) absent(name, path);
  return resolve(*node, std::string(where));
}

RLCORE_INLINE std::string interpolation::absolute(std::string_view name, std::string path) {
  if (name.empty() || name.front() != '.') return std::string(name);
  while (!name.empty() && name.front() == '.') {
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? std::string() : path.substr(0, dot);
    name.remove_prefix(1);
  }
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

RLCORE_INLINE value interpolation::environment(std::string_view arguments, const std::string& path) {
  const std::size_t comma = arguments.find(',');
  const std::string variable(arguments.substr(0, comma));
  if (const char* found = std::getenv(variable.c_str())) return value(found);
  if (comma != arguments.npos) {
    const value fallback = parse_value(arguments.substr(comma + 1));
    return fallback.is_null() ? fallback : value(scalar_text(fallback));
  }
  throw config_error("'" + path + "': the environment has no variable '" + variable + "'");
}

RLCORE_INLINE value interpolation::now(const std::string& format, const std::string& path) {
  if (parallel::ranks_of_environment() > 1)
    throw config_error("'" + path + "': '${now:" + format +
                       "}' may differ between the processes of mpirun; write the time itself, as $(date +%F) does");
  static const std::time_t instant = std::time(nullptr);
  std::tm parts{};
  char text[256] = {};
  if (format.empty() || ::localtime_r(&instant, &parts) == nullptr ||
      std::strftime(text, sizeof text, format.c_str(), &parts) == 0)
    throw config_error("'" + path + "': '${now:" + format + "}': expected a format such as %Y-%m-%d");
  return value(std::string(text));
}

}  // namespace train

namespace train::detail {

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

}  // namespace train::detail
RLCORE_END
#endif
