// The chat templates of shipped_templates.py: ours, and those that TRL and transformers ship, if RLCORE_PYTHON has
// them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "data/scratch.hpp"
#include "rlcore/text/chat_template.hpp"
#include "rlcore/text/text_file.hpp"

namespace shipped_templates {

using json = nlohmann::ordered_json;

inline const json& golden() {
  static const json g =
      json::parse(rlcore::text::read_text_file(std::filesystem::path(RLCORE_REFERENCE_DIR) / "shipped_templates.json"));
  return g;
}

/// FNV-1a of 32 bits, as the script writes it.
inline std::string hash_of(std::string_view text) {
  std::uint32_t value = 2166136261u;
  for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 16777619u;
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(value));
  return digits;
}

inline rlcore::text::chat_template parsed(const std::string& jinja) {
  rlcore::text::jinja::dictionary tokens;
  tokens.set("bos_token", std::string("<s>"));
  tokens.set("eos_token", std::string("</s>"));
  return rlcore::text::chat_template::from_jinja(jinja, "the template", tokens);
}

/// Our templates by name.
inline std::map<std::string, std::string> own() {
  std::map<std::string, std::string> found;
  for (const auto& [name, t] : golden()["own"].items()) found[name] = t["source"].get<std::string>();
  return found;
}

/// The templates that the packages of RLCORE_PYTHON ship, as "trl/qwen3"; none without it.
inline const std::map<std::string, std::string>& of_packages() {
  static const auto read = [] {
    std::map<std::string, std::string> found;
    const char* python = std::getenv("RLCORE_PYTHON");
    if (python == nullptr) return found;
    const scratch::folder place;
    const std::string command = std::string(python) + " " + RLCORE_REFERENCE_DIR + "/shipped_templates.py " +
                                place.path().string() + " 2> /dev/null";
    if (std::system(command.c_str()) != 0) return found;
    for (const auto& file : std::filesystem::directory_iterator(place.path())) {
      std::string name = file.path().stem().string();
      name[name.find('-')] = '/';
      found[name] = rlcore::text::read_text_file(file.path());
    }
    return found;
  };
  static const std::map<std::string, std::string> templates = read();
  return templates;
}

/// Options of rendering number `k` of a conversation: without and with a prompt behind it, then so with tools.
inline rlcore::text::render_options options_of(std::size_t k) {
  rlcore::text::render_options options{.add_generation_prompt = k % 2 == 1};
  if (k >= 2) options.tools = golden()["tools"].get<std::vector<json>>();
  return options;
}

inline std::vector<rlcore::text::message> conversation(const std::string& name) {
  return rlcore::text::messages_from_json(golden()["conversations"][name], rlcore::text::content_form::parts);
}

}  // namespace shipped_templates
