// Saves a training checkpoint from one rank.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/training/files/adapter_files.hpp"
#include "rlcore/training/files/model_files.hpp"

RLCORE_BEGIN
namespace trainer {

/// The training state that a checkpoint saves.
template <class Device>
struct trained_state {
  const nn::causal_lm<Device>& model;
  const nn::lora<Device>* adapter = nullptr;  ///< null: all weights are trained
  const optim::adamw<Device>& optimizer;
  const std::string& base_name;                   ///< what adapter folders call the base
  const std::filesystem::path& tokenizer_folder;  ///< its files are saved beside the weights
  const nlohmann::ordered_json& extra;            ///< extra_state.json
  bool save_whole = false;                        ///< several ranks write the weights of huggingface/ too
};

/// extra_state.json and fsdp_config.json.
inline void save_settings(const std::filesystem::path& folder, const nlohmann::ordered_json& state, int ranks) {
  checkpoint::write_file_atomically(folder / "extra_state.json", text::json_text(state, 2) + "\n");
  const nlohmann::ordered_json fsdp{{"FSDP_version", 1}, {"world_size", ranks}};
  checkpoint::write_file_atomically(folder / "fsdp_config.json", text::json_text(fsdp, 2) + "\n");
}

/// Writes the files listed in trainable_model.hpp from a rank that holds everything.
template <class Device>
void save_by_one(const std::filesystem::path& folder, const trained_state<Device>& state) {
  Device& device = state.model.device();
  const std::span<const nn::parameter> trained = state.adapter ? state.adapter->parameters() : state.model.parameters();
  save_model(folder / "huggingface", state.model, state.tokenizer_folder);
  if (state.adapter)
    save_adapter(folder, state.model.settings(), state.adapter->settings(), state.base_name, trained,
                 to_host(device, state.adapter->values()));
  const std::vector<float> m = to_host(device, state.optimizer.m()), v = to_host(device, state.optimizer.v());
  checkpoint::write_safetensors(folder / "optim.safetensors", moment_tensors(trained, m, v));
  save_settings(folder, state.extra, 1);
}

}  // namespace trainer
RLCORE_END
