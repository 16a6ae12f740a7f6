// Saving and resuming a policy run: verl's folders and names, our formats, all or nothing.
//
//   global_step_N/data.json                   position in the data
//   global_step_N/actor/huggingface/          full weights (F32), config, tokenizer: loads in transformers
//   global_step_N/actor/optim.safetensors     exp_avg.<parameter>, exp_avg_sq.<parameter>
//   global_step_N/actor/extra_state.json      optimizer steps, KL coefficient
//   global_step_N/actor/fsdp_config.json      {"FSDP_version": 1, "world_size": 1}
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/safetensors.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/text/tokenizer_folder.hpp"
#include "rlcore/trainer/policy/actor.hpp"

RLCORE_BEGIN
namespace trainer {

/// What a resumed run needs besides weights and moments. Data order and random numbers are functions of (seed, step),
/// so the step is all there is to remember of them.
struct run_state {
  std::int64_t step = 0, optimizer_steps = 0, skipped_updates = 0;
  std::uint64_t seed = 0;
  double reward_kl_coefficient = 0;
};

template <class Device>
std::vector<float> to_host(Device& device, const buffer<float, Device>& values) {
  std::vector<float> host(values.size());
  device.download(host.data(), values.data(), host.size() * sizeof(float));
  return host;
}

/// The moments as tensors named after their parameters.
inline std::vector<checkpoint::tensor_source> moment_tensors(std::span<const nn::parameter> parameters,
                                                             std::span<const float> m, std::span<const float> v) {
  std::vector<checkpoint::tensor_source> tensors;
  for (const nn::parameter& p : parameters) {
    tensors.push_back({"exp_avg." + p.name, p.shape, m.subspan(p.offset, p.size)});
    tensors.push_back({"exp_avg_sq." + p.name, p.shape, v.subspan(p.offset, p.size)});
  }
  return tensors;
}

/// A folder that transformers loads: weights in F32, config, and the tokenizer files of `tokenizer_folder`.
template <class Device>
void save_model(const std::filesystem::path& folder, const nn::causal_lm<Device>& model,
                const std::filesystem::path& tokenizer_folder) {
  std::filesystem::create_directories(folder);
  checkpoint::write_config(folder, model.settings());
  checkpoint::save_weights(folder, model.parameters(), to_host(model.device(), model.weights()));
  text::copy_files(tokenizer_folder, folder);
}

/// Writes global_step_{state.step} below `root`, then the tracker, then deletes all but the newest `keep` (0: all
/// stay). Whatever fails, older checkpoints stay intact.
template <class Device>
void save_state(const std::filesystem::path& root, actor<Device>& a, const std::filesystem::path& tokenizer_folder,
                const run_state& state, std::int64_t keep) {
  checkpoint::save_step(root, state.step, keep, [&](const std::filesystem::path& folder) {
    const std::filesystem::path inside = folder / "actor";
    save_model(inside / "huggingface", a.model, tokenizer_folder);
    auto& device = a.model.device();
    const std::vector<float> m = to_host(device, a.optimizer.m()), v = to_host(device, a.optimizer.v());
    checkpoint::write_safetensors(inside / "optim.safetensors", moment_tensors(a.model.parameters(), m, v));
    const auto write = [](const std::filesystem::path& path, const nlohmann::ordered_json& content) {
      checkpoint::write_file_atomically(path, content.dump(2) + "\n");
    };
    nlohmann::ordered_json extra{{"rlcore_version", RLCORE_VERSION_STRING},
                                 {"optimizer_steps", state.optimizer_steps},
                                 {"skipped_updates", state.skipped_updates}};
    if (state.reward_kl_coefficient > 0) extra["reward_kl_coefficient"] = state.reward_kl_coefficient;
    write(inside / "extra_state.json", extra);
    write(inside / "fsdp_config.json", {{"FSDP_version", 1}, {"world_size", 1}});
    write(folder / "data.json", {{"step", state.step}, {"seed", state.seed}});
  });
}

/// Puts the state saved in `folder` into `a`. Throws format_error when it was written for another model or another
/// seed.
template <class Device>
run_state load_state(const std::filesystem::path& folder, actor<Device>& a, std::uint64_t seed) {
  const std::filesystem::path inside = folder / "actor";
  auto& device = a.model.device();
  std::vector<float> weights(a.model.size()), m(a.model.size()), v(a.model.size());
  checkpoint::load_weights(inside / "huggingface", a.model.parameters(), weights);
  device.upload(a.model.weights().data(), weights.data(), weights.size() * sizeof(float));

  checkpoint::safetensors_reader moments(inside / "optim.safetensors");
  for (const nn::parameter& p : a.model.parameters()) {
    moments.read_f32("exp_avg." + p.name, std::span(m).subspan(p.offset, p.size));
    moments.read_f32("exp_avg_sq." + p.name, std::span(v).subspan(p.offset, p.size));
  }
  const checkpoint::json_file extra(inside / "extra_state.json"), data(folder / "data.json");
  run_state state;
  state.step = data.integer("step");
  state.seed = static_cast<std::uint64_t>(data.integer("seed", 0));
  state.optimizer_steps = extra.integer("optimizer_steps", 0);
  state.skipped_updates = extra.integer("skipped_updates", 0);
  if (extra.has("reward_kl_coefficient")) state.reward_kl_coefficient = extra.positive("reward_kl_coefficient");
  if (state.seed != seed)
    throw config_error(folder.string() + " was saved by a run with rlcore.seed=" + std::to_string(state.seed) +
                       ", this run has rlcore.seed=" + std::to_string(seed) +
                       ": pass the same seed or trainer.resume_mode=disable");
  device.upload(a.optimizer.m().data(), m.data(), m.size() * sizeof(float));
  device.upload(a.optimizer.v().data(), v.data(), v.size() * sizeof(float));
  a.optimizer.set_steps(state.optimizer_steps);
  return state;
}

}  // namespace trainer
RLCORE_END
