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
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/rollout/request.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"
#include "rlcore/train/files/trained_files.hpp"
#include "rlcore/train/policy/actor.hpp"
#include "rlcore/train/policy/critic.hpp"
#include "rlcore/train/policy/settings.hpp"
#include "rlcore/train/policy/trajectory/surplus_file.hpp"

RLCORE_BEGIN
namespace train {

/// State of a resumed run besides weights and moments. Data order and random numbers are functions of (seed, step)
/// and (seed, round), so this is their complete state.
struct run_state {
  std::int64_t step = 0, optimizer_steps = 0, skipped_updates = 0;
  std::int64_t rounds = 0;          ///< of sampling so far; without dynamic sampling one in each step
  std::vector<trajectory> surplus;  ///< sampled and kept, for the next step
  std::vector<trajectory> open;     ///< groups that asynchronous training has begun
  std::int64_t prompts = 0;         ///< with asynchronous training: begun so far
  std::uint64_t seed = 0;
  double reward_kl_coefficient = 0;
  std::string notice;  ///< a line to print after a resume, or empty
};

/// An update of the actor.
struct done_update {
  std::int64_t step = 0;
  double lr = 0, gradient_norm = 0;
};

/// f(), which samples in step `step`. After an update, logits that are not finite are those of a run that has diverged:
/// throws error, which names the update.
template <class F>
auto from_finite_logits(std::int64_t step, const std::optional<done_update>& last, F&& f) {
  try {
    return f();
  } catch (const rollout::not_finite_error& e) {
    if (!last) throw;
    char update[160];
    std::snprintf(update, sizeof update, "step %lld, had the learning rate %g and the gradient norm %g",
                  static_cast<long long>(last->step), last->lr, last->gradient_norm);
    throw error("step " + std::to_string(step) + ": the run has diverged: " + e.what() + "; the last update, of " +
                update + ": lower actor_rollout_ref.actor.optim.lr, and resume from a checkpoint before it");
  }
}

/// Puts the groups of a checkpoint that have an unfinished response into `state`.open, the others into its surplus.
inline void divide_surplus(std::vector<trajectory> kept, run_state& state) {
  for (auto first = kept.begin(); first != kept.end();) {
    auto last = first + 1;
    while (first->position >= 0 && last != kept.end() && last->position == first->position) ++last;
    const bool open = std::any_of(first, last, [](const trajectory& t) { return t.paused(); });
    std::move(first, last, std::back_inserter(open ? state.open : state.surplus));
    first = last;
  }
}

/// Drops what asynchronous training has begun or keeps.
inline void drop_asynchronous(run_state& state) {
  for (std::vector<trajectory>* rows : {&state.surplus, &state.open})
    std::erase_if(*rows, [](const trajectory& t) { return t.position >= 0; });
}

/// Throws config_error unless the groups that a checkpoint in `folder` holds fit a run with these settings.
inline void check_kept_groups(const run_state& state, const policy_settings& settings,
                              const std::filesystem::path& folder) {
  const auto refuse = [&](const std::string& why) {
    throw config_error((folder / surplus_file_name).string() + ": " + why +
                       "; pass the settings that it was saved with, or trainer.resume_mode=disable");
  };
  for (const std::vector<trajectory>* rows : {&state.surplus, &state.open})
    for (std::size_t i = 0; i < rows->size(); ++i) {
      const trajectory& t = (*rows)[i];
      if ((t.position >= 0) != settings.async.enabled)
        refuse(t.position >= 0 ? "holds responses of asynchronous training (async_training.*)"
                               : "holds responses that were not sampled by asynchronous training");
      if (t.position < 0 && t.paused()) refuse("holds an unfinished response that no run goes on with");
      if (t.position < 0) continue;
      if (rows == &state.open && i > 0 && t.position < state.open[i - 1].position)
        refuse("holds unfinished groups that are not in the order of the data");
      const std::int64_t sample = static_cast<std::int64_t>(i) % settings.samples;
      if (t.sample != sample || t.position >= state.prompts || (sample > 0 && t.position != (*rows)[i - 1].position) ||
          (i + 1 == rows->size() && sample + 1 != settings.samples))
        refuse("holds groups that are not of actor_rollout_ref.rollout.n=" + std::to_string(settings.samples) +
               " responses");
      if (t.paused() && t.response_length() >= settings.max_response_length)
        refuse("holds an unfinished response of " + std::to_string(t.response_length()) +
               " tokens, where data.max_response_length=" + std::to_string(settings.max_response_length));
      if (settings.keep_sampling_mask == t.sampling_mask.empty())
        refuse("holds responses " + std::string(t.sampling_mask.empty() ? "without" : "with") +
               " sampling masks (rlcore.keep_sampling_mask)");
    }
}

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
    nlohmann::ordered_json data{{"step", state.step}, {"seed", state.seed}, {"rounds", state.rounds}};
    if (state.prompts > 0) data["prompts"] = state.prompts;
    checkpoint::write_file_atomically(folder / "data.json", text::json_text(data, 2) + "\n");
    std::vector<trajectory> kept = state.surplus;
    kept.insert(kept.end(), state.open.begin(), state.open.end());
    write_surplus(folder, kept);
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
  state.prompts = data.has("prompts") ? data.integer("prompts", 0) : 0;
  divide_surplus(read_surplus(folder), state);
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
