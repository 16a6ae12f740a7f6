// LoRA settings: target modules, rank and alpha.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace nn {

/// W' = W + (alpha / rank) B A, A [rank, inputs], B [outputs, rank] (Hu et al. 2021). `modules` are the last parts of
/// projection names, e.g. q_proj, or full names; "all-linear" selects all but the head.
struct lora_settings {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> modules{"all-linear"};
  std::uint64_t seed = 1;                 ///< of A; B begins as 0
  std::vector<std::string> exclude = {};  ///< names as in `modules` that get no adapter
  /// A predicate on the projection's name, "model.layers.0.mlp.up_proj"; for vision-language models also on its name in
  /// memory (nn/vision/vision_config.hpp). Empty: none.
  std::function<bool(const std::string&)> excluded = {};

  double scale() const noexcept { return alpha / static_cast<double>(rank); }
};

/// Adaptable projections of the language model.
inline constexpr std::array<std::string_view, 7> linear_modules{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                                "gate_proj", "up_proj", "down_proj"};
/// Additional projections of a vision tower: attention and merger.
inline constexpr std::array<std::string_view, 4> tower_modules{"qkv", "attn.proj", "mlp.0", "mlp.2"};

/// Is it in linear_modules?
constexpr bool is_linear_module(std::string_view name) noexcept {
  return std::find(linear_modules.begin(), linear_modules.end(), name) != linear_modules.end();
}

/// Is `module` equal to `name`, or does it end in "." + name?
inline bool is_module(std::string_view module, std::string_view name) noexcept {
  return module == name ||
         (module.ends_with(name) && module.size() > name.size() && module[module.size() - name.size() - 1] == '.');
}

namespace detail {

/// Is it a possible name of a tower projection or of a single projection?
inline bool is_whole_or_tower_name(const std::string& name) {
  return std::find(tower_modules.begin(), tower_modules.end(), name) != tower_modules.end() ||
         name.starts_with("visual.") || name.starts_with("model.");
}
/// Throws config_error for a name that matches no projection of any model.
inline void check_module(const std::string& name, std::string_view what) {
  if (is_linear_module(name) || is_whole_or_tower_name(name)) return;
  std::string known = "all-linear";
  std::vector<std::string_view> names{"all-linear"};
  for (const std::string_view m : linear_modules) known += ", " + std::string(names.emplace_back(m));
  throw config_error("LoRA: " + std::string(what) + " module '" + name + "' is not one of " + known +
                     did_you_mean(name, names));
}

}  // namespace detail

/// The modules of `s` without the names that it excludes: in the order of linear_modules, then vision tower names and
/// full names. Throws config_error for a rank below 1, a non-positive alpha, and names that no projection has. The
/// constructor of lora checks the tower's names against the model.
inline std::vector<std::string> check_lora(const lora_settings& s) {
  if (s.rank < 1) throw config_error("LoRA: the rank is " + std::to_string(s.rank) + "; expected an integer >= 1");
  if (!(s.alpha > 0) || !std::isfinite(s.alpha))
    throw config_error("LoRA: alpha is " + std::to_string(s.alpha) + "; expected a number > 0");
  if (s.modules.empty()) throw config_error("LoRA: no target modules; expected all-linear or a list of projections");
  const bool all_linear = std::find(s.modules.begin(), s.modules.end(), "all-linear") != s.modules.end();
  if (all_linear && s.modules.size() > 1) throw config_error("LoRA: target modules: all-linear stands alone");
  for (const std::string& name : s.modules)
    if (!all_linear) detail::check_module(name, "target");
  for (const std::string& name : s.exclude) detail::check_module(name, "excluded");
  const auto is_in = [](const std::vector<std::string>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  std::vector<std::string> chosen;
  for (const std::string_view m : linear_modules)
    if ((all_linear || is_in(s.modules, m)) && !is_in(s.exclude, m)) chosen.emplace_back(m);
  for (const std::string& name : s.modules)
    if (detail::is_whole_or_tower_name(name) && !is_in(s.exclude, name)) chosen.push_back(name);
  if (chosen.empty()) throw config_error("LoRA: exclude_modules leaves no target module");
  return chosen;
}

}  // namespace nn
RLCORE_END
