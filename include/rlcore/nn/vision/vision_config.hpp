// Vision tower configuration: vision_config of config.json; module names on disk and in memory of transformers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/core/error.hpp"

RLCORE_BEGIN
namespace nn {

/// Qwen2.5-VL's tower; names and defaults are those of config.json and of the released 3B model.
struct vision_config {
  std::int64_t depth = 32, hidden_size = 1280, num_heads = 16, intermediate_size = 3420, out_hidden_size = 2048;
  std::int64_t in_channels = 3, patch_size = 14, temporal_patch_size = 2, spatial_merge_size = 2, window_size = 112;
  std::vector<std::int64_t> fullatt_block_indexes = {7, 15, 23, 31};
  double rms_norm_eps = 1e-6, rope_theta = 10000;
  std::int64_t tokens_per_second = 2;  ///< of videos, which are not read: kept for files

  bool operator==(const vision_config&) const = default;

  /// Floats of a patch.
  std::int64_t patch() const noexcept { return in_channels * temporal_patch_size * patch_size * patch_size; }
  /// Patches of a token.
  std::int64_t merged() const noexcept { return spatial_merge_size * spatial_merge_size; }
  /// The side of a window in tokens.
  std::int64_t window() const noexcept { return window_size / spatial_merge_size / patch_size; }
  std::int64_t head_dim() const noexcept { return hidden_size / num_heads; }
  /// Parameters of the tower with its merger.
  std::int64_t parameters() const noexcept;
  /// Does this block use full attention over the image instead of windows?
  bool full(std::int64_t block) const noexcept {
    return std::find(fullatt_block_indexes.begin(), fullatt_block_indexes.end(), block) != fullatt_block_indexes.end();
  }
};

/// Throws config_error, naming the key of config.json, for inconsistent numbers.
void check_settings(const vision_config& c);

/// A name prefix in memory and its replacement on disk. This library uses the names on disk.
struct module_prefix {
  std::string_view memory, disk;
};

/// The tower's comes first: "model." on disk belongs to everything else.
inline constexpr std::array module_prefixes = {module_prefix{"model.visual.", "visual."},
                                               module_prefix{"model.language_model.", "model."}};

/// "model.language_model.layers.0" -> "model.layers.0", "model.visual.merger" -> "visual.merger"; returns every other
/// name unchanged.
inline std::string name_on_disk(std::string_view name) {
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.memory)) return std::string(p.disk).append(name.substr(p.memory.size()));
  return std::string(name);
}

/// The inverse, for vision-language models: "model.layers.0" -> "model.language_model.layers.0". Names in memory form
/// are unchanged.
inline std::string name_in_memory(std::string_view name) {
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.memory)) return std::string(name);
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.disk)) return std::string(p.memory).append(name.substr(p.disk.size()));
  return std::string(name);
}

}  // namespace nn
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_NN)
RLCORE_BEGIN
namespace nn {

RLCORE_INLINE std::int64_t vision_config::parameters() const noexcept {
  const std::int64_t h = hidden_size, wide = merged() * h;
  const std::int64_t block =
      2 * h + 4 * (h * h + h) + 2 * (intermediate_size * h + intermediate_size) + (h * intermediate_size + h);
  return h * patch() + depth * block + h + (wide + 1) * wide + (wide + 1) * out_hidden_size;
}

RLCORE_INLINE void check_settings(const vision_config& c) {
  const auto fail = [](const std::string& what) { throw config_error("model config: vision_config." + what); };
  for (const auto& [value, key] : {std::pair{c.depth, "depth"},
                                   {c.hidden_size, "hidden_size"},
                                   {c.num_heads, "num_heads"},
                                   {c.intermediate_size, "intermediate_size"},
                                   {c.out_hidden_size, "out_hidden_size"},
                                   {c.in_channels, "in_channels"},
                                   {c.patch_size, "patch_size"},
                                   {c.temporal_patch_size, "temporal_patch_size"},
                                   {c.spatial_merge_size, "spatial_merge_size"},
                                   {c.window(), "window_size / spatial_merge_size / patch_size"}})
    if (value <= 0) fail(std::string(key) + " must be positive, got " + std::to_string(value));
  if (c.hidden_size % c.num_heads != 0 || c.head_dim() % 4 != 0)
    fail("hidden_size " + std::to_string(c.hidden_size) + " has to be a multiple of 4 num_heads, " +
         std::to_string(4 * c.num_heads) + ": a quarter of a head's components turns with a row or a column");
  for (const std::int64_t block : c.fullatt_block_indexes)
    if (block < 0 || block >= c.depth)
      fail("fullatt_block_indexes names block " + std::to_string(block) + " of " + std::to_string(c.depth));
}

}  // namespace nn
RLCORE_END
#endif
