// Checkpoints of a supervised run: save and resume, atomic; verl's folders and names, this library's formats.
//
//   global_step_N/huggingface/    full weights (LoRA merged), config, tokenizer: loads in transformers
//   global_step_N/...             the other files of trainable_model::save(): optimizer state, adapter
//   global_step_N/data.json       position in the data
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/supervised/task.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"

RLCORE_BEGIN
namespace train {

/// State of a resumed run besides the trained model. The order of the rows is a function of these and the step.
struct supervised_state {
  std::int64_t step = 0, skipped_updates = 0, train_rows = 0, rows_per_step = 0;
  std::uint64_t seed = 0;
};

/// Writes global_step_{state.step} below `root`, then the tracker, then deletes all but the newest `keep` checkpoints
/// (0: keeps all). Older checkpoints stay intact on failure. Collective over all ranks of the model.
template <class Device, class Task>
void save_supervised(const std::filesystem::path& root, trainable_model<Device>& model, const Task& task,
                     const std::filesystem::path& tokenizer_folder, const supervised_state& state, std::int64_t keep) {
  save_step_together(root, state.step, keep, model.world(), [&](const std::filesystem::path& folder) {
    model.save(folder, tokenizer_folder);
    if (model.world() != nullptr && !model.world()->first()) return;
    if constexpr (requires { task.save(folder); }) task.save(folder);
    const nlohmann::ordered_json data{{"rlcore_version", RLCORE_VERSION_STRING},
                                      {"step", state.step},
                                      {"seed", state.seed},
                                      {"train_rows", state.train_rows},
                                      {"rows_per_step", state.rows_per_step},
                                      {"skipped_updates", state.skipped_updates}};
    checkpoint::write_file_atomically(folder / "data.json", text::json_text(data, 2) + "\n");
  });
}

/// Loads `folder` into `model` and `task`. `now` describes this run. Throws config_error if its seed, data set or batch
/// size differs from the saved run's, because the steps would then get other rows.
template <class Device, class Task>
supervised_state load_supervised(const std::filesystem::path& folder, trainable_model<Device>& model, Task& task,
                                 const supervised_state& now) {
  const checkpoint::json_file data(folder / "data.json");
  supervised_state state;
  state.step = data.integer("step");
  state.seed = static_cast<std::uint64_t>(data.integer("seed"));
  state.train_rows = data.integer("train_rows"), state.rows_per_step = data.integer("rows_per_step");
  state.skipped_updates = data.integer("skipped_updates", 0);
  const auto same = [&](const char* name, auto then, auto here) {
    if (then != here)
      throw config_error(folder.string() + " was saved by a run with " + name + " " + std::to_string(then) +
                         ", this run has " + std::to_string(here) +
                         ": take the same, or start anew (trainer.resume_mode=disable)");
  };
  same("seed", state.seed, now.seed);
  same("a training set of so many rows:", state.train_rows, now.train_rows);
  same("train_batch_size", state.rows_per_step, now.rows_per_step);
  model.restore(folder);
  if constexpr (requires { task.restore(folder); }) task.restore(folder);
  return state;
}

}  // namespace train
RLCORE_END
