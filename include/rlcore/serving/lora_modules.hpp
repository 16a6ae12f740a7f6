// LoRA adapters named on the command line.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "rlcore/config/options.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"
#include "rlcore/serving/protocol/api_error.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace serving {

/// An adapter's folder and its name in requests.
struct lora_module {
  std::string name, path;
};

namespace detail {

/// vLLM's {"name", "path", "base_model_name"}.
lora_module read_lora_object(const std::string& text, const std::vector<std::string>& bases);

}  // namespace detail

/// --lora-modules: name=path, or vLLM's JSON objects. `bases` are the names of the model itself. Throws config_error.
std::vector<lora_module> read_lora_modules(const trainer::options& opt, const std::vector<std::string>& bases);

/// How many adapters may be in memory together: --max-loras, or as many as --lora-modules names, at least one; 0
/// without --enable-lora.
inline std::size_t adapter_places(const trainer::options& opt) {
  if (!opt.get<bool>("enable-lora")) return 0;
  if (const auto most = opt.find<std::int64_t>("max-loras")) return static_cast<std::size_t>(*most);
  return std::max<std::size_t>(1, opt.list("lora-modules").size());
}

}  // namespace serving
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_SERVING)
RLCORE_BEGIN
namespace serving::detail {

RLCORE_INLINE lora_module read_lora_object(const std::string& text, const std::vector<std::string>& bases) {
  const json from = text::parse_json<config_error, json>(text, "--lora-modules");
  static const std::vector<std::string> known{"name", "path", "base_model_name"};
  for (const auto& [key, value] : from.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw config_error("--lora-modules " + text + ": '" + key + "' is unknown" + did_you_mean(key, known) +
                         "; expected name, path and base_model_name");
    if (!value.is_string() && !(value.is_null() && key == "base_model_name"))
      throw config_error("--lora-modules " + text + ": " + key + ": expected a string, found " + value.type_name());
  }
  if (const auto base = from.find("base_model_name"); base != from.end() && base->is_string())
    if (std::find(bases.begin(), bases.end(), base->get<std::string>()) == bases.end())
      throw config_error("--lora-modules " + text + ": base_model_name: this server's model is called '" + bases[0] +
                         "'");
  return {from.value("name", ""), from.value("path", "")};
}

}  // namespace serving::detail

namespace serving {

RLCORE_INLINE std::vector<lora_module> read_lora_modules(const trainer::options& opt,
                                                         const std::vector<std::string>& bases) {
  std::vector<lora_module> all;
  std::set<std::string> names(bases.begin(), bases.end());
  for (const std::string& text : opt.list("lora-modules")) {
    const std::size_t equal = text.find('=');
    const lora_module one = text.starts_with('{')        ? detail::read_lora_object(text, bases)
                            : equal == std::string::npos ? lora_module{}
                                                         : lora_module{text.substr(0, equal), text.substr(equal + 1)};
    if (one.name.empty() || one.path.empty())
      throw config_error("--lora-modules " + text +
                         R"(: expected name=folder, or {"name": "...", "path": "...", "base_model_name": "..."})");
    if (!names.insert(one.name).second)
      throw config_error("--lora-modules " + text + ": the name '" + one.name + "' is taken; expected another");
    all.push_back(one);
  }
  return all;
}

}  // namespace serving
RLCORE_END
#endif
