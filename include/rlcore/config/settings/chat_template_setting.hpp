// Chat template override.
#pragma once

#include <string>

#include "rlcore/config/options.hpp"

RLCORE_BEGIN
namespace trainer {

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

}  // namespace trainer
RLCORE_END
