// Checkpoints of a policy run: save and resume, atomic; verl's folders and names, this library's formats.
//
//   global_step_N/data.json                   position in the data
//   global_step_N/surplus.cbor                groups sampled for the next step (dynamic sampling), if there are any
//   global_step_N/actor/huggingface/          full weights (F32), config, tokenizer: loads in transformers
//   global_step_N/actor/optim.safetensors     exp_avg.<parameter>, exp_avg_sq.<parameter>
//   global_step_N/actor/extra_state.json      optimizer steps, KL coefficient
//   global_step_N/critic/                     the same files of the critic, if there is one
//   global_step_N/actor/fsdp_config.json      {"FSDP_version": 1, "world_size": 1}
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/policy/actor.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"

RLCORE_BEGIN
namespace train {

/// State of a resumed run besides weights and moments. Data order and random numbers are functions of (seed, step)
/// and (seed, round), so this is their complete state.
struct run_state {
  std::int64_t step = 0, optimizer_steps = 0, skipped_updates = 0;
  std::int64_t rounds = 0;          ///< of sampling so far; without dynamic sampling one in each step
  std::vector<trajectory> surplus;  ///< sampled and kept, for the next step
  std::uint64_t seed = 0;
  double reward_kl_coefficient = 0;
  std::string notice;  ///< a line to print after a resume, or empty
};

/// Deletes critic/ in all but the newest `keep` checkpoints up to `newest` (keep <= 0: all stay).
inline void delete_old_critics(const std::filesystem::path& root, std::int64_t newest, std::int64_t keep) {
  std::vector<std::int64_t> steps;
  for (const auto& entry : std::filesystem::directory_iterator(root))
    if (const auto step = checkpoint::step_of(entry.path());
        step && *step <= newest && std::filesystem::exists(entry.path() / "critic"))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  const auto count = keep <= 0 ? steps.size() : std::min(steps.size(), static_cast<std::size_t>(keep));
  for (std::size_t i = 0; i + count < steps.size(); ++i)
    std::filesystem::remove_all(checkpoint::step_folder(root, steps[i]) / "critic");
}

/// Writes global_step_{state.step} below `root`, then the tracker, then deletes all but the newest `keep` (0: all
/// stay). Older checkpoints stay intact on failure. Collective over all `ranks`.
template <class Device>
void save_state(const std::filesystem::path& root, actor<Device>& a, critic<Device>* value_model,
                const model_source& from, const run_state& state, std::int64_t keep, parallel::world* ranks = nullptr) {
  save_step_together(root, state.step, keep, ranks, [&](const std::filesystem::path& folder) {
    nlohmann::ordered_json extra{{"skipped_updates", state.skipped_updates}};
    if (state.reward_kl_coefficient > 0) extra["reward_kl_coefficient"] = state.reward_kl_coefficient;
    save_checkpoint(a, folder / "actor", from, extra);
    if (value_model != nullptr) save_checkpoint(*value_model, folder / "critic", from);
    if (ranks != nullptr && !ranks->first()) return;
    const nlohmann::ordered_json data{{"step", state.step}, {"seed", state.seed}, {"rounds", state.rounds}};
    checkpoint::write_file_atomically(folder / "data.json", text::json_text(data, 2) + "\n");
    write_surplus(folder, state.surplus);
  });
  if (value_model != nullptr && (ranks == nullptr || ranks->first()))
    delete_old_critics(root, state.step, value_model->settings.keep);
}

/// Puts the state saved in `folder` into `a` and the critic. Throws format_error when it was written for another model
/// or another seed.
template <class Device>
run_state load_state(const std::filesystem::path& folder, actor<Device>& a, critic<Device>* value_model,
                     std::uint64_t seed) {
  const checkpoint::json_file data(folder / "data.json");
  run_state state;
  state.step = data.integer("step");
  if (const auto step = checkpoint::step_of(folder); step && *step != state.step)
    throw format_error(folder.string() + ": data.json is that of step " + std::to_string(state.step));
  state.seed = static_cast<std::uint64_t>(data.integer("seed", 0));
  state.rounds = data.has("rounds") ? data.integer("rounds", 0) : state.step;
  state.surplus = read_surplus(folder);
  if (state.seed != seed)
    throw config_error(folder.string() + " was saved by a run with rlcore.seed=" + std::to_string(state.seed) +
                       ", this run has rlcore.seed=" + std::to_string(seed) +
                       ": pass the same seed or trainer.resume_mode=disable");
  if (value_model != nullptr && !std::filesystem::exists(folder / "critic"))
    throw config_error(
        folder.string() +
        " has no critic/: the run that saved it had none, or trainer.max_critic_ckpt_to_keep removed it; "
        "pass trainer.resume_mode=disable");
  const auto [extra, notice] = restore_checkpoint(a, folder / "actor");
  state.notice = notice;
  state.optimizer_steps = a.optimizer().steps();
  state.skipped_updates = extra.integer("skipped_updates", 0);
  if (value_model != nullptr) restore_checkpoint(*value_model, folder / "critic");
  if (extra.has("reward_kl_coefficient")) state.reward_kl_coefficient = extra.positive("reward_kl_coefficient");
  return state;
}

}  // namespace train
RLCORE_END
