// PEFT's adapter folder: adapter_config.json and adapter_model.safetensors. JSON is slow to compile: with
// RLCORE_COMPILED it is that of src/checkpoint.cpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/vision/vision_config.hpp"

RLCORE_BEGIN
namespace checkpoint {

inline constexpr std::string_view adapter_prefix = "base_model.model.", adapter_config_name = "adapter_config.json",
                                  adapter_weights_name = "adapter_model.safetensors";

/// The content of adapter_config.json. `lora.modules` are the linear_modules that occur in target_modules, which PEFT
/// writes as last parts or full paths of names. For vision-language models full paths are kept, in disk form.
struct adapter_config {
  nn::lora_settings lora;
  double scale = 1;           ///< W' = W + scale B A: alpha / r, or alpha / sqrt(r) with use_rslora
  std::string base_model;     ///< base_model_name_or_path; may be empty
  bool score = false;         ///< of a score model whose head was trained in full (modules_to_save)
  bool token_labels = false;  ///< task TOKEN_CLS, whose head has a bias
  bool images = false;        ///< of a vision-language model: files use its module names in memory
};

/// Whether `folder` holds an adapter instead of a model.
inline bool is_adapter(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder / adapter_config_name, ignored);
}

/// Throws file_error, or format_error naming the key for everything that would change the mathematics (DoRA, trained
/// biases, ranks that differ between modules, another kind of adapter).
adapter_config read_adapter_config(const std::filesystem::path& folder);

/// Writes the folder as PEFT does. `parameters` are those of nn::lora; F32, so that a run can resume from it.
void write_adapter(const std::filesystem::path& folder, const adapter_config& c,
                   std::span<const nn::parameter> parameters, std::span<const float> values);

/// The tensors of an adapter's file: their names without adapter_prefix and on disk -> their names in the file. Throws
/// format_error for a name without the prefix and for two names of one tensor.
std::map<std::string, std::string> adapter_names(const safetensors_reader& file);

/// Fills `values` with the folder's tensors, or this rank's part of sharded ones. The folder must hold the parameters,
/// with their shapes, and no tensor besides these and, of a model in stages, those of `all` stages. Throws file_error
/// or format_error naming the tensor.
void load_adapter(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                  std::span<float> values, std::span<const nn::parameter> all = {});

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/core/compiler.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace checkpoint {

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
    c.images = c.images || in_memory || path.starts_with("visual.");
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
  if (!c.images && !c.lora.excluded) return nn::check_lora(c.lora);
  constexpr std::string_view ending = ".lora_A.weight";
  std::vector<std::string> paths;
  for (const nn::parameter& p : parameters)
    if (p.name.ends_with(ending)) paths.push_back(p.name.substr(0, p.name.size() - ending.size()));
  if (paths.empty()) paths = c.lora.modules;
  for (std::string& path : paths)
    if (c.images) path = nn::name_in_memory(path);
  return paths;
}

}  // namespace detail

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
    tensors.push_back({std::string(adapter_prefix) + (c.images ? nn::name_in_memory(p.name) : p.name), p.shape,
                       values.subspan(p.offset, p.size)});
  std::filesystem::create_directories(folder);
  write_safetensors(folder / adapter_weights_name, tensors);
  write_file_atomically(folder / adapter_config_name, text::json_text(root, 2) + "\n");
}

RLCORE_INLINE std::map<std::string, std::string> adapter_names(const safetensors_reader& file) {
  std::map<std::string, std::string> stored;
  for (const tensor_info& t : file.tensors()) {
    const auto fail = [&](const std::string& message) {
      throw format_error(file.path().string() + ": tensor '" + data::printable(t.name) + "' " + message);
    };
    if (!t.name.starts_with(adapter_prefix)) fail("does not begin with " + std::string(adapter_prefix));
    const auto [at, is_new] =
        stored.try_emplace(nn::name_on_disk(std::string_view(t.name).substr(adapter_prefix.size())), t.name);
    if (!is_new) fail("is also there as '" + data::printable(at->second) + "'");
  }
  return stored;
}

RLCORE_INLINE void load_adapter(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                                std::span<float> values, std::span<const nn::parameter> all) {
  check_extent(parameters, values.size());
  const safetensors_reader file(folder / adapter_weights_name);
  std::map<std::string, std::string> stored = adapter_names(file);
  std::set<std::string> expected;
  for (const nn::parameter& p : all) expected.insert(std::string(adapter_prefix) + p.name);
  for (const nn::parameter& p : parameters) {
    expected.insert(std::string(adapter_prefix) + p.name);
    const auto at = stored.find(p.name);
    const tensor_info& found = file.info(at != stored.end() ? at->second : std::string(adapter_prefix) + p.name);
    if (found.shape != p.whole_shape())
      throw format_error(file.path().string() + ": tensor '" + found.name + "' has shape " + shape_text(found.shape) +
                         "; expected " + shape_text(p.whole_shape()));
  }
  for (const auto& [name, stored_name] : stored)
    if (!expected.contains(std::string(adapter_prefix) + name))
      throw format_error(file.path().string() + ": tensor '" + data::printable(stored_name) +
                         "' is not among the adapted modules" + did_you_mean(stored_name, expected));
  for (const nn::parameter& p : parameters)
    p.for_runs([&](std::size_t at, std::uint64_t from, std::size_t count) {
      file.read_f32(stored.at(p.name), values.subspan(p.offset + at, count), from);
    });
}

}  // namespace checkpoint
RLCORE_END
#endif
