// What matrix products of a served model read with --dtype auto.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/config/options.hpp"
#include "rlcore/core/abi.hpp"
#include "rlcore/device/cpu/instruction_sets.hpp"
#include "rlcore/device/device_settings.hpp"

RLCORE_BEGIN
namespace serving {

/// The type that products read, none for the device's own, and a line that says why, or nothing.
struct served_dtype {
  std::optional<compute> type{};
  std::string note{};
};

/// Whether this set of kernels has products of bfloat16: the others convert what they read to float32, in every pass.
inline bool multiplies_bfloat16(std::string_view instruction_set) { return instruction_set == "avx512_bf16"; }

/// The type for a model that is stored in bfloat16, on a processor with the kernels `instruction_set`. Without products
/// of bfloat16 it is float32, which gives more tokens per second and takes the same memory
/// (weight_format::bfloat16_exact).
served_dtype dtype_on_processor(std::string_view instruction_set);

/// The type for --dtype auto without rlcore.compute: that of the model's config.json, but see dtype_on_processor().
/// Throws config_error, file_error, device_error.
served_dtype automatic_dtype(const train::options& opt, const device_settings& device);

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving {

RLCORE_INLINE served_dtype dtype_on_processor(std::string_view instruction_set) {
  if (multiplies_bfloat16(instruction_set)) return {compute::bfloat16};
  return {compute::float32, "products take the weights as float32: this processor (" + std::string(instruction_set) +
                                ") has none of bfloat16"};
}

RLCORE_INLINE served_dtype automatic_dtype(const train::options& opt, const device_settings& device) {
  if (opt.find<std::string>("rlcore.compute")) return {};
  const std::filesystem::path folder = checkpoint::resolve_model(opt.get<std::string>("model"));
  if (checkpoint::stored_dtype(folder) != "bfloat16") return {};
  const bool npu = device.kind == device_kind::npu || device.kind == device_kind::npu_emulator;
  if (npu || opt.get<std::string>("rlcore-weights") == "int8") return {compute::bfloat16};
  if (device.kind != device_kind::cpu)
    return {compute::float32, "products take the weights as float32: this device sums bfloat16 no faster"};
  return dtype_on_processor(cpu_kernels::choose(device.instruction_set).name);
}

}  // namespace serving
RLCORE_END
#endif
