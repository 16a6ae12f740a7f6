// lora_rank, lora_alpha, target_modules and exclude_modules of a model's section.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"

RLCORE_BEGIN
namespace trainer {

/// Nothing for a rank of 0. `section` ends in a dot, e.g. "critic.model."; `seed` is A's. Throws config_error naming
/// the section for a rank, alpha or module that cannot be.
inline std::optional<nn::lora_settings> read_lora(const options& opt, const std::string& section, std::uint64_t seed) {
  nn::lora_settings s{opt.get<std::int64_t>(section + "lora_rank"), opt.get<double>(section + "lora_alpha"),
                      opt.list(section + "target_modules"), seed};
  if (s.rank == 0) return std::nullopt;
  try {
    s.modules = nn::check_lora(s);
    nn::lora_settings excluded = s;
    excluded.modules.clear();
    if (section == "actor_rollout_ref.model.") excluded.modules = opt.list(section + "exclude_modules");
    if (!excluded.modules.empty()) {
      for (const std::string& name : nn::check_lora(excluded)) std::erase(s.modules, name);
      if (s.modules.empty()) throw config_error("LoRA: exclude_modules leaves no target module");
    }
  } catch (const config_error& e) {
    throw config_error(section.substr(0, section.size() - 1) + ": " + e.what());
  }
  return s;
}

/// A note for LoRA keys of `section` that say something while the rank is 0.
inline void note_unused_lora(options& opt, const std::string& section) {
  if (opt.get<std::int64_t>(section + "lora_rank") != 0) return;
  for (const char* name : {"lora_alpha", "target_modules", "exclude_modules"})
    if ((name[0] != 'e' || section == "actor_rollout_ref.model.") && opt.is_set(section + name))
      opt.note(section + name + " has no effect without " + section + "lora_rank > 0");
}

}  // namespace trainer
RLCORE_END
