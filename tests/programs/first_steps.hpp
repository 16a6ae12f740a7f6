// Command lines that are known to run: the cases of tests/reference/first_steps.json, on its models and data.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/program.hpp"

namespace first_steps {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

inline const ordered_json& cases() {
  static const auto all = ordered_json::parse(scratch::read(RLCORE_REFERENCE_DIR "/first_steps.json"));
  return all;
}

inline void replace(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

/// The arguments of a case. Its models are put into `place`, each with the tokenizer; the run goes to place/out.
inline std::vector<std::string> arguments(const std::string& name, const fs::path& place) {
  const fs::path data = RLCORE_REFERENCE_DIR "/first_steps";
  for (const char* model : {"qwen2", "qwen3", "score"}) {
    if (fs::exists(place / model)) continue;
    fs::copy(data / model, place / model);
    fs::copy(data / "tokenizer", place / model);
  }
  std::vector<std::string> list;
  for (std::string text : cases().at(name)["arguments"]) {
    replace(text, "{data}", data.string());
    for (const char* folder : {"qwen2", "qwen3", "score", "out"})
      replace(text, "{" + std::string(folder) + "}", (place / folder).string());
    list.push_back(text);
  }
  return list;
}

}  // namespace first_steps
