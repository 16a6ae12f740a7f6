// Gradient summation settings stored in a checkpoint.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace trainer {

/// The settings that determine the bits of a run's sums, besides its rows; extra_state.json holds them as "sums".
inline nlohmann::ordered_json settings_of_sums(const parallel::parallel_settings& s, int tp_reduce_chunks) {
  return {{"gradient_leaves", s.leaves},
          {"reduction", parallel::reduction_names[static_cast<std::size_t>(s.reduction)]},
          {"balance", s.balance},
          {"bf16_wire", s.bf16_wire},
          {"row_chunks", tp_reduce_chunks}};
}

/// A notice for a run that continues with other settings of sums than it was saved with; empty if they are the same.
inline std::string sums_notice(const std::filesystem::path& folder, const checkpoint::json_file& extra,
                               const nlohmann::ordered_json& ours) {
  if (!extra.has("sums")) return "";
  std::string then, now;
  for (const auto& [key, value] : ours.items()) {
    const nlohmann::json& sums = extra.root()["sums"];
    const nlohmann::json mine = text::try_parse_json(text::json_text(value));
    if (!sums.contains(key) || sums[key] == mine) continue;
    then += (then.empty() ? "" : ", ") + key + "=" + data::printable(text::json_text(sums[key]));
    now += (now.empty() ? "" : ", ") + text::json_text(value);
  }
  if (then.empty()) return "";
  return folder.string() + " was saved with " + then + ", this run goes on with " + now +
         ": sums have other bits than in the run that saved";
}

}  // namespace trainer
RLCORE_END
