// Applies overrides to a configuration: Hydra's rules for =, +, ++ and ~.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/config/grammar/override.hpp"
#include "rlcore/config/grammar/value.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace trainer {

/// The parts of a dotted path.
std::vector<std::string_view> path_parts(std::string_view path);

/// The node at a dotted path, or nullptr. An empty path is the root.
const value* select(const value& root, std::string_view path);

/// A map is merged into a map, member by member; anything else replaces.
void merge(value& target, const value& source, bool may_add, const std::string& path);

/// Sets `path`; missing maps on the way are created when `may_add`.
void assign(value& root, std::string_view path, const value& item, bool may_add);

/// Applies one override to a configuration. Throws config_error: unknown key (=), the item exists already (+), nothing
/// to delete or a different value (~).
void apply(value& root, const override_setting& setting);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::vector<std::string_view> path_parts(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t first = 0; first <= path.size();) {
    const std::size_t end = std::min(path.find('.', first), path.size());
    parts.push_back(path.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

RLCORE_INLINE const value* select(const value& root, std::string_view path) {
  const value* node = &root;
  if (!path.empty())
    for (const std::string_view part : path_parts(path))
      if (node != nullptr) node = node->find(part);
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
  std::string walked;
  for (const std::string_view part : path_parts(path)) {
    walked += (walked.empty() ? "" : ".") + std::string(part);
    value* next = node->find(part);
    if (next == nullptr) {
      if (!may_add)
        throw config_error("unknown key '" + std::string(path) + "'; to add it, write +" + std::string(path) + "=...");
      if (!node->is_map()) *node = value(value::map{});
      node->as<value::map>()->push_back({std::string(part), {}});
      next = &node->as<value::map>()->back().item;
    }
    node = next;
  }
  merge(*node, item, may_add, walked);
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

}  // namespace trainer
RLCORE_END
#endif
