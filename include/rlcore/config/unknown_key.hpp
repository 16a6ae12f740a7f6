// Error message for an unknown key, with suggestions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rlcore/config/key.hpp"
#include "rlcore/config/registry.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace trainer {

/// The unknown key with suggestions: keys that end with it, then similar spellings, then keys with the same last word.
std::string unknown_key_text(const registry& known, const std::string& name);

}  // namespace trainer
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_CONFIG)
RLCORE_BEGIN
namespace trainer {

RLCORE_INLINE std::string unknown_key_text(const registry& known, const std::string& name) {
  const auto names = known.names();
  const auto ending = [&](const std::string& end) {
    std::vector<std::string> found;
    for (const std::string& candidate : names)
      if (found.size() < 3 && candidate.ends_with(end)) found.push_back(candidate);
    return found;
  };
  auto near = ending("." + name);  // the front is missing, a letter is wrong, or only the last part is right
  if (near.empty()) near = nearest(name, names);
  if (near.empty()) near = ending("." + name.substr(name.rfind('.') == name.npos ? 0 : name.rfind('.') + 1));
  std::string hint;
  for (const std::string& candidate : near) hint += (hint.empty() ? " (did you mean '" : "' or '") + candidate;
  std::string_view map;
  for (const key& k : known.keys())
    if (map.empty() && k.type == key_type::dictionary && k.use == disposition::accepted) map = k.name;
  return "unknown key '" + name + "'" + (hint.empty() ? "" : hint + "'?)") +
         (map.empty() ? "; see --help"
                      : "; a new key, written +" + name + "=..., is taken only inside a free-form map such as " +
                            std::string(map));
}

}  // namespace trainer
RLCORE_END
#endif
