// trainer.rollout_data_dir: what was sampled in a step and what it was worth, one JSON line per response.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "rlcore/checkpoint/atomic_file.hpp"
#include "rlcore/data/prompt_dataset.hpp"
#include "rlcore/text/tokenizer.hpp"
#include "rlcore/trainer/policy/trajectory.hpp"

RLCORE_BEGIN
namespace trainer {

/// Writes <folder>/<step>.jsonl with verl's keys: input, output, gts, score, step. Throws file_error.
inline void write_rollouts(const std::filesystem::path& folder, std::int64_t step, std::span<const trajectory> batch,
                           const data::prompt_dataset& prompts, const text::tokenizer& tokenizer) {
  std::string lines;
  for (const trajectory& t : batch) {
    const nlohmann::ordered_json line{
        {"input", tokenizer.decode(std::span(t.tokens).first(static_cast<std::size_t>(t.prompt_length)))},
        {"output", tokenizer.decode(t.response(), true)},
        {"gts", prompts[t.row].ground_truth},
        {"score", t.verdict.score},
        {"step", step}};
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw file_error(folder.string() + ": cannot create the folder: " + failure.message());
  checkpoint::write_file_atomically(folder / (std::to_string(step) + ".jsonl"), lines);
}

}  // namespace trainer
RLCORE_END
