// What matrix products of a served model read with --dtype auto.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/device/device_settings.hpp"
#include "rlcore/train/ranks/available_memory.hpp"

RLCORE_BEGIN
namespace serving {

/// The type that products read, none for the device's own, and a line that says why, or nothing.
struct served_dtype {
  std::optional<compute> type{};
  std::string note{};
};

/// Whether this set of kernels has products of bfloat16: the others convert what they read to float32, in every pass.
inline bool multiplies_bfloat16(std::string_view instruction_set) { return instruction_set == "avx512_bf16"; }

/// The type for a model that is stored in bfloat16, with `bytes` of weights, on a processor with the kernels
/// `instruction_set`. Without products of bfloat16 it is float32, which gives more tokens per second; its weights take
/// twice the memory, so that it stays bfloat16 where they would leave less than half of `available` to the rest.
served_dtype dtype_on_processor(std::string_view instruction_set, std::size_t bytes,
                                std::optional<std::size_t> available);

/// The type for --dtype auto without rlcore.compute: that of the model's config.json, but see dtype_on_processor().
/// Throws config_error, file_error, device_error.
served_dtype automatic_dtype(const train::options& opt, const device_settings& device);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE served_dtype dtype_on_processor(std::string_view instruction_set, std::size_t bytes,
                                              std::optional<std::size_t> available) {
  if (multiplies_bfloat16(instruction_set)) return {compute::bfloat16};
  char line[250];
  const double gb = 2e-9 * static_cast<double>(bytes);
  const int set = static_cast<int>(instruction_set.size());
  if (available && 4 * bytes > *available) {
    std::snprintf(line, sizeof line,
                  "products read bfloat16, as the model is stored: float32 is faster on this processor (%.*s), but its "
                  "weights would take %.3g GB of the %.3g GB that are free",
                  set, instruction_set.data(), gb, 1e-9 * static_cast<double>(*available));
    return {compute::bfloat16, line};
  }
  std::snprintf(line, sizeof line,
                "products read float32: this processor (%.*s) has none of bfloat16; the weights take %.3g GB, twice "
                "their files (--dtype bfloat16 halves that, and is slower)",
                set, instruction_set.data(), gb);
  return {compute::float32, line};
}

RLCORE_INLINE served_dtype automatic_dtype(const train::options& opt, const device_settings& device) {
  if (opt.find<std::string>("rlcore.compute")) return {};
  const std::filesystem::path folder = checkpoint::resolve_model(opt.get<std::string>("model"));
  if (checkpoint::stored_dtype(folder) != "bfloat16") return {};
  if (device.kind != device_kind::cpu || opt.get<std::string>("rlcore-weights") == "int8") return {compute::bfloat16};
  std::size_t bytes = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder, ignored))
    if (file.path().extension() == ".safetensors") bytes += static_cast<std::size_t>(file.file_size(ignored));
  return dtype_on_processor(cpu_kernels::choose(device.instruction_set).name, bytes, train::available_memory());
}

}  // namespace serving
RLCORE_END
#endif
