// How a model wants to be sampled: generation_config.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "rlcore/checkpoint/json_file.hpp"

RLCORE_BEGIN
namespace checkpoint {

/// The settings that vLLM takes from generation_config.json as its defaults (--generation-config auto); unset: the file
/// does not say.
struct generation_defaults {
  std::optional<double> temperature = {}, top_p = {}, min_p = {}, repetition_penalty = {};
  std::optional<std::int64_t> top_k = {}, max_new_tokens = {};
};

/// Reads `folder`/generation_config.json; nothing is set without it. Throws file_error, or format_error naming file,
/// key, value and expectation.
inline generation_defaults read_generation_defaults(const std::filesystem::path& folder) {
  generation_defaults found;
  if (!std::filesystem::exists(folder / "generation_config.json")) return found;
  const json_file file(folder / "generation_config.json");
  const auto number = [&](const char* key, double least, double most, bool open,
                          std::string_view expected) -> std::optional<double> {
    if (!file.has(key)) return {};
    if (!file.root()[key].is_number()) file.fail(key, expected);
    const auto value = file.root()[key].get<double>();
    if (!(value >= least && value <= most) || (open && value == least)) file.fail(key, expected);
    return value;
  };
  constexpr double large = 1e30;
  found.temperature = number("temperature", 0, large, false, "a number >= 0");
  found.top_p = number("top_p", 0, 1, true, "a number > 0 and <= 1");
  found.min_p = number("min_p", 0, 1, false, "a number from 0 to 1");
  found.repetition_penalty = number("repetition_penalty", 0, large, true, "a number > 0");
  if (file.has("top_k")) found.top_k = file.integer("top_k", -1);
  if (file.has("max_new_tokens")) found.max_new_tokens = file.integer("max_new_tokens", 1);
  return found;
}

}  // namespace checkpoint
RLCORE_END
