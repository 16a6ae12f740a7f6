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
#include "rlcore/nn/vision/module_names.hpp"

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
  bool pictures = false;      ///< of a vision-language model: files use its module names in memory
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

/// Fills `values` with the folder's tensors, or this rank's part of sharded ones. The folder must hold exactly the
/// parameters, with their shapes. Throws file_error or format_error naming the tensor.
void load_adapter(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                  std::span<float> values);

}  // namespace checkpoint
RLCORE_END

#if !defined(RLCORE_COMPILED)
#include "rlcore/checkpoint/adapter_json.hpp"
#endif

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CHECKPOINT)
RLCORE_BEGIN
namespace checkpoint {

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
                                std::span<float> values) {
  check_extent(parameters, values.size());
  const safetensors_reader file(folder / adapter_weights_name);
  std::map<std::string, std::string> stored = adapter_names(file);
  std::set<std::string> expected;
  for (const nn::parameter& p : parameters) {
    expected.insert(std::string(adapter_prefix) + p.name);
    const auto at = stored.find(p.name);
    const tensor_info& found = file.info(at != stored.end() ? at->second : std::string(adapter_prefix) + p.name);
    if (found.shape != p.whole_shape())
      throw format_error(file.path().string() + ": tensor '" + found.name + "' has shape " + shape_text(found.shape) +
                         "; expected " + shape_text(p.whole_shape()));
  }
  for (const auto& [name, there] : stored)
    if (!expected.contains(std::string(adapter_prefix) + name))
      throw format_error(file.path().string() + ": tensor '" + data::printable(there) +
                         "' is not among the adapted modules" + did_you_mean(there, expected));
  for (const nn::parameter& p : parameters)
    p.for_runs([&](std::size_t at, std::uint64_t from, std::size_t count) {
      file.read_f32(stored.at(p.name), values.subspan(p.offset + at, count), from);
    });
}

}  // namespace checkpoint
RLCORE_END
#endif
