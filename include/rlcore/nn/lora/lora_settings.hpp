// The settings of LoRA: which projections have adapters, their rank and their scale.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rlcore/core/error.hpp"
#include "rlcore/core/suggest.hpp"

RLCORE_BEGIN
namespace nn {

/// W' = W + (alpha / rank) B A, A [rank, inputs], B [outputs, rank] (Hu et al. 2021). `modules` are the last part of
/// the projections' names, e.g. q_proj; "all-linear" stands for all but the head.
struct lora_settings {
  std::int64_t rank = 8;
  double alpha = 16;
  std::vector<std::string> modules{"all-linear"};
  std::uint64_t seed = 1;  ///< of A; B begins as 0

  double scale() const noexcept { return alpha / static_cast<double>(rank); }
};

/// The projections that can have adapters.
inline constexpr std::array<std::string_view, 7> linear_modules{"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                                                "gate_proj", "up_proj", "down_proj"};

/// The modules of `s` in the order of linear_modules. Throws config_error for a rank below 1, an alpha that is not
/// positive, and names that no projection has.
inline std::vector<std::string> check_lora(const lora_settings& s) {
  if (s.rank < 1) throw config_error("LoRA: the rank is " + std::to_string(s.rank) + "; expected an integer >= 1");
  if (!(s.alpha > 0) || !std::isfinite(s.alpha))
    throw config_error("LoRA: alpha is " + std::to_string(s.alpha) + "; expected a number > 0");
  if (s.modules.empty()) throw config_error("LoRA: no target modules; expected all-linear or a list of projections");
  const bool all_linear = std::find(s.modules.begin(), s.modules.end(), "all-linear") != s.modules.end();
  if (all_linear && s.modules.size() > 1) throw config_error("LoRA: target modules: all-linear stands alone");
  for (const std::string& name : s.modules)
    if (!all_linear && std::find(linear_modules.begin(), linear_modules.end(), name) == linear_modules.end()) {
      std::string known = "all-linear";
      std::vector<std::string_view> names{"all-linear"};
      for (const std::string_view m : linear_modules) known += ", " + std::string(names.emplace_back(m));
      throw config_error("LoRA: target module '" + name + "' is not one of " + known + did_you_mean(name, names));
    }
  std::vector<std::string> chosen;
  for (const std::string_view m : linear_modules)
    if (all_linear || std::find(s.modules.begin(), s.modules.end(), m) != s.modules.end()) chosen.emplace_back(m);
  return chosen;
}

}  // namespace nn
RLCORE_END
