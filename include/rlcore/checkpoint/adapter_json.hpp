// Reading and writing adapter_config.json.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/vision/module_names.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// Declared in adapter.hpp.
RLCORE_INLINE adapter_config read_adapter_config(const std::filesystem::path& folder) {
  const json_file file(folder / adapter_config_name);
  const nlohmann::json& root = file.root();
  adapter_config c;
  if (file.string("peft_type") != "LORA") file.fail("peft_type", "\"LORA\"");
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias", "use_qalora"})
    if (file.boolean(key, false)) file.fail(key, "false");
  if (file.has("bias") && root["bias"] != "none") file.fail("bias", "\"none\"");
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (file.has(key) && !root[key].empty()) file.fail(key, "{} (one rank and alpha for all modules)");
  for (const char* key : {"layer_replication", "trainable_token_indices", "target_parameters"})
    if (file.has(key) && !root[key].empty()) file.fail(key, "null");
  c.lora.rank = file.integer("r", 1);
  c.lora.alpha = file.positive("lora_alpha");
  c.scale =
      file.boolean("use_rslora", false) ? c.lora.alpha / std::sqrt(static_cast<double>(c.lora.rank)) : c.lora.scale();
  if (file.has("base_model_name_or_path")) c.base_model = file.string("base_model_name_or_path");
  if (file.has("modules_to_save")) {
    const nlohmann::json& saved = root["modules_to_save"];
    for (const nlohmann::json& module : saved)
      if (module != "score" && module != "classifier") file.fail("modules_to_save", "null or [\"score\"]");
    c.score = !saved.empty();
  }
  c.token_labels = file.has("task_type") && root["task_type"] == "TOKEN_CLS";
  if (!file.has("target_modules")) file.fail("target_modules", "a list of projections");
  const nlohmann::json& targets = root["target_modules"];
  c.lora.modules.clear();
  for (const nlohmann::json& target : targets.is_array() ? targets : nlohmann::json::array({targets})) {
    if (!target.is_string()) file.fail("target_modules", "a list of projections");
    const auto path = target.get<std::string>();
    if (path == "all-linear") {
      c.lora.modules = {path};
      break;
    }
    std::string name = path.substr(path.rfind('.') + 1);
    const bool in_memory = nn::name_on_disk(path) != path;
    c.pictures = c.pictures || in_memory || path.starts_with("visual.");
    if (in_memory || path.starts_with("visual.") || !nn::is_linear_module(name)) name = nn::name_on_disk(path);
    if (std::find(c.lora.modules.begin(), c.lora.modules.end(), name) == c.lora.modules.end())
      c.lora.modules.push_back(name);
  }
  return c;
}

namespace detail {

/// target_modules: names; or the paths of all adapted modules for vision-language models (tower modules have the same
/// names) and if a predicate excluded some.
RLCORE_INLINE std::vector<std::string> target_modules(const adapter_config& c,
                                                      std::span<const nn::parameter> parameters) {
  if (!c.pictures && !c.lora.excluded) return nn::check_lora(c.lora);
  constexpr std::string_view ending = ".lora_A.weight";
  std::vector<std::string> paths;
  for (const nn::parameter& p : parameters)
    if (p.name.ends_with(ending)) paths.push_back(p.name.substr(0, p.name.size() - ending.size()));
  if (paths.empty()) paths = c.lora.modules;
  for (std::string& path : paths)
    if (c.pictures) path = nn::name_in_memory(path);
  return paths;
}

}  // namespace detail

/// Declared in adapter.hpp.
RLCORE_INLINE void write_adapter(const std::filesystem::path& folder, const adapter_config& c,
                                 std::span<const nn::parameter> parameters, std::span<const float> values) {
  check_extent(parameters, values.size());
  const bool whole = c.lora.alpha == std::floor(c.lora.alpha) && c.lora.alpha < 1e9;
  const nlohmann::ordered_json alpha =
      whole ? nlohmann::ordered_json(static_cast<std::int64_t>(c.lora.alpha)) : nlohmann::ordered_json(c.lora.alpha);
  const nlohmann::ordered_json saved =
      c.score ? nlohmann::ordered_json::array({"score"}) : nlohmann::ordered_json(nullptr);
  const nlohmann::ordered_json root{{"alpha_pattern", nlohmann::json::object()},
                                    {"base_model_name_or_path", c.base_model},
                                    {"bias", "none"},
                                    {"fan_in_fan_out", false},
                                    {"inference_mode", true},
                                    {"init_lora_weights", true},
                                    {"layers_pattern", nullptr},
                                    {"layers_to_transform", nullptr},
                                    {"lora_alpha", alpha},
                                    {"lora_dropout", 0.0},
                                    {"modules_to_save", saved},
                                    {"peft_type", "LORA"},
                                    {"r", c.lora.rank},
                                    {"rank_pattern", nlohmann::json::object()},
                                    {"revision", nullptr},
                                    {"target_modules", detail::target_modules(c, parameters)},
                                    {"task_type", !c.score         ? "CAUSAL_LM"
                                                  : c.token_labels ? "TOKEN_CLS"
                                                                   : "SEQ_CLS"},
                                    {"use_dora", false},
                                    {"use_rslora", false}};
  std::vector<tensor_source> tensors;
  for (const nn::parameter& p : parameters)
    tensors.push_back({std::string(adapter_prefix) + (c.pictures ? nn::name_in_memory(p.name) : p.name), p.shape,
                       values.subspan(p.offset, p.size)});
  std::filesystem::create_directories(folder);
  write_safetensors(folder / adapter_weights_name, tensors);
  write_file_atomically(folder / adapter_config_name, text::json_text(root, 2) + "\n");
}

}  // namespace checkpoint
RLCORE_END
