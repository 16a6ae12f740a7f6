// Module names of vision-language models: on disk, and in memory of transformers since 4.52.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

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
