// Files that name tools and interactions: verl's tool_config_path and interaction_config_path, YAML or JSON.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace agent {

/// An entry of `tools:`.
struct tool_entry {
  std::string class_name;
  nlohmann::ordered_json config;  ///< an object
  nlohmann::ordered_json schema;  ///< tool_schema without what verl drops and without nulls; null: none
};

/// An entry of `interaction:`.
struct interaction_entry {
  std::string name;  ///< of an entry without one: the class's, without "Interaction", in lower case
  std::string class_name;
  nlohmann::ordered_json config;  ///< an object; its "name" is the name
};

/// YAML as JSON, by YAML's core schema: unquoted null, true, false and numbers are such. Throws format_error with the
/// line, also for aliases that would make more than a million values; file_error; config_error for YAML in a program
/// that was built without yaml-cpp.
nlohmann::ordered_json read_yaml(const std::filesystem::path& file);

/// The parts of a tool_schema that verl keeps, in the order in which it shows them to the model: a property's type,
/// description and enum alone. `where` names it in messages. Throws config_error.
nlohmann::ordered_json shown_schema(const nlohmann::ordered_json& given, const std::string& where);

/// The tools of a file: {tools: [{class_name, config, tool_schema}]}. Throws as read_yaml(), and config_error that
/// names the entry.
std::vector<tool_entry> read_tool_file(const std::filesystem::path& file);

/// The interactions of a file: {interaction: [{name, class_name, config}]}, each with a name of its own. Throws as
/// read_tool_file().
std::vector<interaction_entry> read_interaction_file(const std::filesystem::path& file);

}  // namespace agent
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_AGENT)
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "rlcore/core/error.hpp"
#include "rlcore/text/message.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/text/text_file.hpp"
#if defined(RLCORE_HAS_YAML)
#include <yaml-cpp/yaml.h>
#endif

RLCORE_BEGIN
namespace agent {
namespace detail {

/// An unquoted scalar by YAML's core schema.
RLCORE_INLINE nlohmann::ordered_json plain_scalar(const std::string& text) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    for (const std::string_view w : words)
      if (text == w) return true;
    return false;
  };
  if (is_one_of({"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of({"true", "True", "TRUE"})) return true;
  if (is_one_of({"false", "False", "FALSE"})) return false;
  const char *begin = text.data() + (text[0] == '+'), *end = text.data() + text.size();
  std::int64_t whole = 0;
  const bool hex = text.starts_with("0x"), octal = text.starts_with("0o");
  if ((begin != text.data() || hex || octal) && begin[2 * (hex || octal)] == '-') return text;  // two signs, or 0x-1
  if (const auto [stop, code] = std::from_chars(begin + 2 * (hex || octal), end, whole,
                                                hex     ? 16
                                                : octal ? 8
                                                        : 10);
      code == std::errc() && stop == end)
    return whole;
  double real = 0;
  const bool digit = text.find_first_of("0123456789") <= 2;  // not "inf" and "nan", which are texts
  if (const auto [stop, code] = std::from_chars(begin, end, real); digit && code == std::errc() && stop == end)
    return real;
  return text;
}

#if defined(RLCORE_HAS_YAML)
/// `left` bounds what aliases can repeat.
RLCORE_INLINE nlohmann::ordered_json json_of(const YAML::Node& node, std::size_t& left, int depth,
                                             const std::string& where) {
  if (depth > 100 || left-- == 0) throw format_error(where + ": the YAML is too deep or too large");
  if (node.IsScalar()) return node.Tag() == "!" ? nlohmann::ordered_json(node.Scalar()) : plain_scalar(node.Scalar());
  if (node.IsSequence()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const auto& each : node) list.push_back(json_of(each, left, depth + 1, where));
    return list;
  }
  if (!node.IsMap()) return nullptr;
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  for (const auto& member : node) {
    if (!member.first.IsScalar())
      throw format_error(where + ": line " + std::to_string(member.first.Mark().line + 1) +
                         ": expected a text as a key");
    map[member.first.Scalar()] = json_of(member.second, left, depth + 1, where);
  }
  return map;
}
#endif

}  // namespace detail

RLCORE_INLINE nlohmann::ordered_json read_yaml(const std::filesystem::path& file) {
  const std::string text = text::read_text_file(file);
  if (file.extension() == ".json") return text::parse_json<format_error, nlohmann::ordered_json>(text, file.string());
#if defined(RLCORE_HAS_YAML)
  try {
    std::size_t left = 1'000'000;
    return detail::json_of(YAML::Load(text), left, 0, file.string());
  } catch (const YAML::Exception& e) {
    throw format_error(file.string() + ": line " + std::to_string(e.mark.line + 1) + ": no YAML: " + e.msg);
  }
#else
  throw config_error(file.string() +
                     ": this program reads no YAML; write the file as JSON (.json), or install libyaml-cpp-dev and "
                     "build again");
#endif
}

namespace detail {

/// Gives `take` each entry of the list `name`, its place ("tools[0]"), its class_name and its config, a map. Throws
/// config_error, of `refuse` as well.
template <class F>
void each_class(const nlohmann::ordered_json& root, const std::string& name, const std::string& members, auto refuse,
                F take) {
  if (!root.is_object() || !root.contains(name) || !root[name].is_array())
    refuse("expected " + name + ": a list of {" + members + "}");
  std::size_t count = 0;
  for (const nlohmann::ordered_json& each : root[name]) {
    const std::string where = name + "[" + std::to_string(count++) + "]";
    if (!each.is_object() || !each.contains("class_name") || !each["class_name"].is_string())
      refuse(where + ": expected class_name, a text");
    const bool has_config = each.contains("config") && !each["config"].is_null();
    nlohmann::ordered_json config = has_config ? each["config"] : nlohmann::ordered_json::object();
    if (!config.is_object()) refuse(where + ".config: expected a map");
    take(each, where, each["class_name"].get<std::string>(), std::move(config));
  }
  if (count == 0) refuse(name + " is empty");
}

}  // namespace detail

RLCORE_INLINE std::vector<tool_entry> read_tool_file(const std::filesystem::path& file) {
  const nlohmann::ordered_json root = text::without_null_members(read_yaml(file));
  std::vector<tool_entry> entries;
  detail::each_class(
      root, "tools", "class_name, config, tool_schema",
      [&](const std::string& what) { throw config_error(file.string() + ": " + what); },
      [&](const nlohmann::ordered_json& each, const std::string& where, std::string class_name, auto config) {
        entries.push_back({std::move(class_name), std::move(config), nullptr});
        if (each.contains("tool_schema"))
          entries.back().schema = shown_schema(each["tool_schema"], file.string() + ": " + where);
      });
  return entries;
}

RLCORE_INLINE std::vector<interaction_entry> read_interaction_file(const std::filesystem::path& file) {
  const nlohmann::ordered_json root = read_yaml(file);
  const auto refuse = [&](const std::string& what) { throw config_error(file.string() + ": " + what); };
  std::vector<interaction_entry> entries;
  detail::each_class(
      root, "interaction", "name, class_name, config", refuse,
      [&](const nlohmann::ordered_json& each, const std::string& where, const std::string& class_name, auto config) {
        std::string name = class_name.substr(class_name.rfind('.') + 1);
        if (each.contains("name") && !each["name"].is_null()) {
          if (!each["name"].is_string()) refuse(where + ".name: expected a text");
          name = each["name"].template get<std::string>();
        } else {
          constexpr std::string_view ending = "Interaction";
          if (name.ends_with(ending)) name.resize(name.size() - ending.size());
          for (char& c : name)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        }
        for (const interaction_entry& e : entries)
          if (e.name == name)
            refuse(where + ": '" + name + "' is the name of another one; give each a name of its own");
        config["name"] = name;
        entries.push_back({name, class_name, std::move(config)});
      });
  return entries;
}

RLCORE_INLINE nlohmann::ordered_json shown_schema(const nlohmann::ordered_json& given, const std::string& where) {
  const auto refuse = [&](const std::string& what) { throw config_error(where + ".tool_schema" + what); };
  const auto member = [&](const nlohmann::ordered_json& of, const char* name, const std::string& path,
                          auto is) -> const nlohmann::ordered_json& {
    if (!of.is_object() || !of.contains(name) || !is(of[name])) refuse(path + ": expected " + name);
    return of[name];
  };
  const auto is_text = [](const auto& j) { return j.is_string(); };
  const auto is_map = [](const auto& j) { return j.is_object(); };
  const nlohmann::ordered_json& function = member(given, "function", "", is_map);
  const nlohmann::ordered_json& parameters = member(function, "parameters", ".function", is_map);
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  for (const auto& [name, p] : member(parameters, "properties", ".function.parameters", is_map).items()) {
    nlohmann::ordered_json& kept = properties[name] = nlohmann::ordered_json::object();
    kept["type"] = member(p, "type", ".function.parameters.properties." + name,
                          [](const auto& j) { return j.is_string() || j.is_array(); });
    for (const char* more : {"description", "enum"})
      if (p.contains(more)) kept[more] = p[more];
  }
  nlohmann::ordered_json shown{{"type", member(given, "type", "", is_text)},
                               {"function", {{"name", member(function, "name", ".function", is_text)}}}};
  nlohmann::ordered_json& f = shown["function"];
  f["description"] = member(function, "description", ".function", is_text);
  f["parameters"] = {{"type", member(parameters, "type", ".function.parameters", is_text)}, {"properties", properties}};
  if (parameters.contains("required")) f["parameters"]["required"] = parameters["required"];
  if (function.contains("strict")) f["strict"] = function["strict"];
  return shown;
}

}  // namespace agent
RLCORE_END
#endif
