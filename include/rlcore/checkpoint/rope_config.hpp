// The rotary positions in config.json <-> nn::config.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/nn/config.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// config.json's words for nn::rope_type, in its order.
inline constexpr std::array<std::string_view, 4> rope_type_names = {"default", "linear", "llama3", "yarn"};

namespace detail {

/// A number of a scaled rope: the types that have it, and whether they need it.
struct rope_number {
  std::string_view key;
  double nn::rope_settings::* member;
  std::array<nn::rope_type, 3> types;
  bool needed;
};

inline constexpr auto scaled_by_linear = nn::rope_type::linear, scaled_by_llama3 = nn::rope_type::llama3,
                      scaled_by_yarn = nn::rope_type::yarn;
inline constexpr rope_number rope_numbers[] = {
    {"factor", &nn::rope_settings::factor, {scaled_by_linear, scaled_by_llama3, scaled_by_yarn}, true},
    {"low_freq_factor", &nn::rope_settings::low_freq_factor, {scaled_by_llama3}, true},
    {"high_freq_factor", &nn::rope_settings::high_freq_factor, {scaled_by_llama3}, true},
    {"attention_factor", &nn::rope_settings::attention_factor, {scaled_by_yarn}, false},
    {"beta_fast", &nn::rope_settings::beta_fast, {scaled_by_yarn}, false},
    {"beta_slow", &nn::rope_settings::beta_slow, {scaled_by_yarn}, false},
    {"mscale", &nn::rope_settings::mscale, {scaled_by_yarn}, false},
    {"mscale_all_dim", &nn::rope_settings::mscale_all_dim, {scaled_by_yarn}, false},
};

inline bool has_number(nn::rope_type type, const rope_number& n) {
  return type != nn::rope_type::plain && std::find(n.types.begin(), n.types.end(), type) != n.types.end();
}
inline bool has_original_length(nn::rope_type type) {
  return type == nn::rope_type::llama3 || type == nn::rope_type::yarn;
}

/// The type that the object `rope` under `key` names by "rope_type" or, in older files, "type".
nn::rope_type read_rope_type(const json_file& file, const std::string& key, const nlohmann::json& rope);

/// Refuses keys that the type does not have.
void refuse_other_keys(const json_file& file, const std::string& key, const nlohmann::json& rope, nn::rope_type type);

/// The object under `key` as settings. max_position_embeddings is read already.
nn::rope_settings read_rope_object(const json_file& file, const std::string& key, const nn::config& c);

/// mrope_section of the object under `key`, of a family with a vision tower: its rope is the plain one in three axes,
/// called "mrope" or "default" by either name. config.head_dim is read already.
void read_sections(const json_file& file, const std::string& key, nn::config& c);

}  // namespace detail

/// rope_theta and rope_scaling as transformers 4 writes them, or both inside rope_parameters (transformers 5).
/// config.max_position_embeddings is read already. Throws format_error for kinds of scaling that are not here (dynamic,
/// longrope, ...), for keys that a kind does not have, and for a partial_rotary_factor. A family with a vision tower
/// has to have its mrope_section there.
void read_rope(const json_file& file, nn::config& c);

/// What write_config() puts under rope_scaling, which transformers 4 and 5 read; null for the plain rope.
nlohmann::ordered_json rope_scaling_json(const nn::rope_settings& s);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint::detail {

RLCORE_INLINE nn::rope_type read_rope_type(const json_file& file, const std::string& key, const nlohmann::json& rope) {
  const char* const name = rope.contains("rope_type") ? "rope_type" : "type";
  const nlohmann::json type = rope.contains(name) ? rope[name] : nlohmann::json("default");
  for (std::size_t i = 0; i < rope_type_names.size(); ++i)
    if (type == rope_type_names[i]) return static_cast<nn::rope_type>(i);
  file.fail(key, "the rope_type \"default\", \"linear\", \"llama3\" or \"yarn\"");
}

RLCORE_INLINE void refuse_other_keys(const json_file& file, const std::string& key, const nlohmann::json& rope,
                                     nn::rope_type type) {
  for (const auto& [name, value] : rope.items()) {
    bool known = name == "rope_type" || name == "type" || name == "rope_theta";
    known = known || (name == "original_max_position_embeddings" && has_original_length(type));
    known = known || (name == "truncate" && type == nn::rope_type::yarn);
    for (const rope_number& n : rope_numbers) known = known || (name == n.key && has_number(type, n));
    if (!known)
      file.fail(key, "no '" + name + "' for the rope_type \"" +
                         std::string(rope_type_names[static_cast<std::size_t>(type)]) + "\"");
  }
}

RLCORE_INLINE nn::rope_settings read_rope_object(const json_file& file, const std::string& key, const nn::config& c) {
  const nlohmann::json& rope = file.root()[key];
  if (!rope.is_object()) file.fail(key, "an object");
  nn::rope_settings s;
  s.type = read_rope_type(file, key, rope);
  refuse_other_keys(file, key, rope, s.type);
  const auto has = [&](std::string_view name) { return rope.contains(name) && !rope[std::string(name)].is_null(); };
  for (const rope_number& n : rope_numbers) {
    if (!has_number(s.type, n) || (!n.needed && !has(n.key))) continue;
    const std::string name(n.key);
    if (!has(name) || !rope[name].is_number() || !(rope[name].get<double>() > 0))
      file.fail(key, "a number > 0 as its '" + name + "'");
    s.*n.member = rope[name].get<double>();
  }
  if (s.type != nn::rope_type::plain && s.factor < 1) file.fail(key, "a 'factor' of at least 1");
  if (s.type == nn::rope_type::llama3 && s.high_freq_factor <= s.low_freq_factor)
    file.fail(key, "a 'high_freq_factor' above its 'low_freq_factor'");
  if (has_original_length(s.type)) {
    s.original_max_position_embeddings = c.max_position_embeddings;  // as transformers
    if (const char* const name = "original_max_position_embeddings"; has(name)) {
      if (!rope[name].is_number_integer() || rope[name].get<std::int64_t>() < 1)
        file.fail(key, std::string("an integer >= 1 as its '") + name + "'");
      s.original_max_position_embeddings = rope[name].get<std::int64_t>();
    }
  }
  if (has("truncate")) {
    if (!rope["truncate"].is_boolean()) file.fail(key, "true or false as its 'truncate'");
    s.truncate = rope["truncate"].get<bool>();
  }
  return s;
}

RLCORE_INLINE void read_sections(const json_file& file, const std::string& key, nn::config& c) {
  const nlohmann::json& rope = file.root()[key];
  if (!rope.is_object()) file.fail(key, "an object");
  for (const auto& [name, value] : rope.items()) {
    if (name == "mrope_section" || name == "rope_theta") continue;
    if (name != "rope_type" && name != "type") file.fail(key, "no '" + name + "' beside 'mrope_section'");
    if (value != "mrope" && value != "default") file.fail(key, "the '" + name + "' \"mrope\" or \"default\"");
  }
  const std::string expected =
      "an 'mrope_section' of three integers that add up to head_dim / 2, " + std::to_string(c.head_dim / 2);
  if (!rope.contains("mrope_section")) file.fail(key, expected);
  const nlohmann::json& sections = rope["mrope_section"];
  if (!sections.is_array() || sections.size() != c.mrope_section.size()) file.fail(key, expected);
  std::int64_t left = c.head_dim / 2;
  for (std::size_t i = 0; i < c.mrope_section.size(); ++i) {
    if (!sections[i].is_number_integer()) file.fail(key, expected);
    const auto n = sections[i].get<std::int64_t>();
    if (n < 0 || n > left) file.fail(key, expected);
    c.mrope_section[i] = n, left -= n;
  }
  if (left != 0) file.fail(key, expected);
}

}  // namespace checkpoint::detail

namespace checkpoint {

RLCORE_INLINE void read_rope(const json_file& file, nn::config& c) {
  if (file.has("partial_rotary_factor") && file.root()["partial_rotary_factor"] != 1)
    file.fail("partial_rotary_factor", "1");
  if (file.has("rope_parameters") && file.has("rope_scaling"))
    file.fail("rope_scaling", "null beside 'rope_parameters'");
  if (c.model->vision && !file.has("rope_parameters") && !file.has("rope_scaling"))
    file.fail("rope_scaling", "an object with 'mrope_section'");
  for (const std::string key : {"rope_parameters", "rope_scaling"}) {
    if (!file.has(key)) continue;
    if (c.model->vision)
      detail::read_sections(file, key, c);
    else
      c.rope_scaling = detail::read_rope_object(file, key, c);
    const nlohmann::json& rope = file.root()[key];
    if (!rope.contains("rope_theta")) continue;
    if (!rope["rope_theta"].is_number() || !(rope["rope_theta"].get<double>() > 0))
      file.fail(key, "a number > 0 as its 'rope_theta'");
    c.rope_theta = rope["rope_theta"].get<double>();
    return;
  }
  const bool absent = !file.has("rope_theta") && c.model->default_rope_theta != 0;
  c.rope_theta = absent ? c.model->default_rope_theta : file.positive("rope_theta");
}

RLCORE_INLINE nlohmann::ordered_json rope_scaling_json(const nn::rope_settings& s) {
  if (s.type == nn::rope_type::plain) return {};
  nlohmann::ordered_json rope{{"rope_type", rope_type_names[static_cast<std::size_t>(s.type)]}};
  for (const detail::rope_number& n : detail::rope_numbers)
    if (detail::has_number(s.type, n) && (n.needed || s.*n.member != 0)) rope[std::string(n.key)] = s.*n.member;
  if (detail::has_original_length(s.type))
    rope["original_max_position_embeddings"] = s.original_max_position_embeddings;
  if (!s.truncate) rope["truncate"] = false;
  return rope;
}

}  // namespace checkpoint
RLCORE_END
#endif
