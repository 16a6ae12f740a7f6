// The two naming schemes of models that read pictures: on disk, and in the memory of transformers since 4.52.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"

RLCORE_BEGIN
namespace nn {

/// A beginning of names in memory, and what stands in its place on disk. Our parameters have the names on disk.
struct module_prefix {
  std::string_view memory, disk;
};

/// The tower's comes first: "model." on disk belongs to everything else.
inline constexpr std::array module_prefixes = {module_prefix{"model.visual.", "visual."},
                                               module_prefix{"model.language_model.", "model."}};

/// "model.language_model.layers.0" -> "model.layers.0", "model.visual.merger" -> "visual.merger"; every other name,
/// also one that is on disk already, as it is.
inline std::string name_on_disk(std::string_view name) {
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.memory)) return std::string(p.disk).append(name.substr(p.memory.size()));
  return std::string(name);
}

/// The inverse, of a model that reads pictures: "model.layers.0" -> "model.language_model.layers.0". A name that is in
/// memory already stays.
inline std::string name_in_memory(std::string_view name) {
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.memory)) return std::string(name);
  for (const module_prefix& p : module_prefixes)
    if (name.starts_with(p.disk)) return std::string(p.memory).append(name.substr(p.disk.size()));
  return std::string(name);
}

}  // namespace nn
RLCORE_END
