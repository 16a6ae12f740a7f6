// Options of a model: LoRA, chat template, penalties of sampling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/rollout/logit_rules.hpp"
#include "rlcore/text/pattern.hpp"

RLCORE_BEGIN
namespace train {

/// exclude_modules: names of projections or ends of them, or one regular expression that has to match a whole name, as
/// in PEFT. An entry with a character that names cannot contain is an expression. Throws config_error for an invalid
/// expression, and for one beside other entries.
void read_excluded(const std::vector<std::string>& entries, nn::lora_settings& s);

/// Empty for a rank of 0. `section` ends in a dot, e.g. "critic.model."; `seed` is A's. Throws config_error naming the
/// section for an invalid rank, alpha or module.
std::optional<nn::lora_settings> read_lora(const options& opt, const std::string& section, std::uint64_t seed);

/// Adds a note for LoRA keys of `section` that are set while the rank is 0.
void note_unused_lora(options& opt, const std::string& section);

/// The value of rlcore.chat_template, or else of verl's key: a file, Jinja text or a family. Empty if none is given.
inline std::string chat_template_setting(const options& opt) {
  for (const char* name :
       {"rlcore.chat_template", "actor_rollout_ref.model.custom_chat_template", "data.chat_template"}) {
    const key* known = opt.known().find(name);
    if (known == nullptr || known->type != key_type::text) continue;
    if (const auto setting = opt.find<std::string>(name)) return *setting;
  }
  return {};
}

/// <prefix>repetition_penalty, frequency_penalty and presence_penalty.
inline rollout::logit_rules read_penalties(const options& opt, const std::string& prefix) {
  rollout::logit_rules rules;
  rules.repetition_penalty = static_cast<float>(opt.get<double>(prefix + "repetition_penalty"));
  rules.frequency_penalty = static_cast<float>(opt.get<double>(prefix + "frequency_penalty"));
  rules.presence_penalty = static_cast<float>(opt.get<double>(prefix + "presence_penalty"));
  return rules;
}

}  // namespace train
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace train {

RLCORE_INLINE void read_excluded(const std::vector<std::string>& entries, nn::lora_settings& s) {
  constexpr std::string_view of_names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  for (const std::string& entry : entries)
    if (entry.find_first_not_of(of_names) != std::string::npos) {
      if (entries.size() > 1)
        throw config_error("LoRA: exclude_modules: '" + entry + "' is an expression; expected it alone, or names");
      try {
        const auto whole = std::make_shared<text::pattern>("\\A(?:" + entry + ")\\z");
        s.excluded = [whole](const std::string& name) {
          bool matches = false;
          whole->for_each_match(name, [&](std::size_t, std::size_t) { matches = true; });
          return matches;
        };
      } catch (const format_error& e) {
        throw config_error(std::string("LoRA: exclude_modules: ") + e.what());
      }
      return;
    }
  s.exclude = entries;
}

RLCORE_INLINE std::optional<nn::lora_settings> read_lora(const options& opt, const std::string& section,
                                                         std::uint64_t seed) {
  nn::lora_settings s{opt.get<std::int64_t>(section + "lora_rank"), opt.get<double>(section + "lora_alpha"),
                      opt.list(section + "target_modules"), seed};
  if (s.rank == 0) return std::nullopt;
  try {
    if (section == "actor_rollout_ref.model.") read_excluded(opt.list(section + "exclude_modules"), s);
    nn::check_lora(s);
  } catch (const config_error& e) {
    throw config_error(section.substr(0, section.size() - 1) + ": " + e.what());
  }
  return s;
}

RLCORE_INLINE void note_unused_lora(options& opt, const std::string& section) {
  if (opt.get<std::int64_t>(section + "lora_rank") != 0) return;
  for (const char* name : {"lora_alpha", "target_modules", "exclude_modules"})
    if ((name[0] != 'e' || section == "actor_rollout_ref.model.") && opt.is_set(section + name))
      opt.note(section + name + " has no effect without " + section + "lora_rank > 0");
}

}  // namespace train
RLCORE_END
#endif
