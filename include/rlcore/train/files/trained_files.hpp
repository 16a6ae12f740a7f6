// Files of a trainable_model: loads weights, saves a checkpoint, restores it to the same bits.
//
//   huggingface/         full weights (F32), with adapters merged, config, tokenizer: loads in transformers
//   lora_adapter/        with LoRA: the adapters, as PEFT writes them
//   optim.safetensors    exp_avg.<parameter>, exp_avg_sq.<parameter> of what is trained
//   extra_state.json     optimizer steps, with LoRA the fingerprint of the base, and the caller's entries
//   fsdp_config.json     {"FSDP_version": 1, "world_size": 1}
//
// Several ranks write the folders of save_checkpoint.hpp instead of huggingface/*.safetensors and optim.safetensors.
// Any number of ranks reads the files of any other number.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/core/version.hpp"
#include "rlcore/parallel/strategy/any_strategy.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/files/save_checkpoint.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
namespace train {

/// Loads the weights of a Hugging Face folder, a rank with a shard only that; with LoRA they are the base of the
/// adapters. A score model may load a causal one: the seed of the settings then initialises its head.
template <class Device, class Strategy>
void load_weights(trainable_model<Device, Strategy>& m, const std::filesystem::path& folder) {
  load_resident(m.model, m.resident(), folder, m.settings().seed);
  if (m.adapter() == nullptr) return;
  const std::string& name = m.settings().base_name;
  const auto fingerprint = [&] {
    if constexpr (std::derived_from<Strategy, any_strategy>)
      if (m.world() != nullptr) return weights_fingerprint(m.model, *m.world());
    return weights_fingerprint(m.model);
  };
  m.attach_adapters({name.empty() ? folder.string() : name, folder.string(), fingerprint()});
}
/// The same for a frozen model.
template <class Device, class Strategy>
void load_weights(frozen_model<Device, Strategy>& m, const std::filesystem::path& folder, std::uint64_t seed = 1) {
  if (m.model.packed_alone()) return load_packed(m.model, folder, {}, [](std::size_t, std::span<const float>) {});
  load_resident(m.model, m.resident(), folder, seed);
}

/// Writes the files above into `folder`, all ranks together; rank 0's `extra` goes into extra_state.json. Throws
/// std::logic_error for several ranks of a strategy that is not derived from any_strategy.
template <class Device, class Strategy>
void save_checkpoint(const trainable_model<Device, Strategy>& m, const std::filesystem::path& folder,
                     const model_source& from, const nlohmann::ordered_json& extra = nlohmann::ordered_json::object()) {
  nlohmann::ordered_json state{{"rlcore_version", RLCORE_VERSION_STRING}, {"optimizer_steps", m.optimizer().steps()}};
  state["sums"] = settings_of_sums(m.strategy().settings(), static_cast<int>(m.model.settings().tp_reduce_chunks));
  if (m.adapter()) state["base_fingerprint"] = m.base().fingerprint;
  for (const auto& [key, value] : extra.items()) state[key] = value;
  const trained_state<Device> all{m.model, m.adapter(), m.optimizer(),          m.base().name,
                                  from,    state,       m.settings().save_whole};
  if constexpr (std::derived_from<Strategy, any_strategy>)
    if (m.strategy().size() > 1) {
      std::vector<held_weights> merged;
      const auto* const shards = m.share().shards();
      if (m.adapter())
        merged = shards ? shards->held() : held_whole(m.model.own_parameters(), m.model.weights().data());
      return save_by_ranks(
          m.world()->all(), folder, all, owned_runs(m.held(), m.pieces()),
          [&](const owned_run& run) { return m.share().place_of(run); }, merged);
    }
  if (m.strategy().size() > 1)
    throw std::logic_error("rlcore: save_checkpoint: several ranks save with any_strategy and its compositions alone");
  save_by_one(folder, all);
}

/// What restore_checkpoint() read besides the state.
struct restored_checkpoint {
  checkpoint::json_file extra;  ///< extra_state.json
  std::string notice;           ///< a line to print, or empty
};

/// Restores what save_checkpoint() wrote, to the same bits. With LoRA the base must be loaded before. Throws
/// format_error for a different model, config_error for different LoRA settings or a different base.
template <class Device, class Strategy>
restored_checkpoint restore_checkpoint(trainable_model<Device, Strategy>& m, const std::filesystem::path& folder) {
  checkpoint::json_file extra(folder / "extra_state.json");
  const std::int64_t steps = extra.integer("optimizer_steps", 0);
  std::string notice = sums_notice(
      folder, extra, settings_of_sums(m.strategy().settings(), static_cast<int>(m.model.settings().tp_reduce_chunks)));
  check_adapter(folder, extra, m.adapter() ? &m.adapter()->settings() : nullptr, m.base());
  std::vector<float> values;
  if (m.adapter()) {
    values.resize(m.trained_size());
    read_adapter(folder, *m.adapter(), values);
  } else {
    const resident_weights<Device> resident = m.resident();
    values.resize(resident.values.size());
    read_weights(m.model, folder / "huggingface", {}, resident.pieces, values);
  }
  std::vector<float> moments(m.optimizer().size()), squares(moments.size());
  read_moments(folder, owned_runs(m.held(), m.pieces()), moments, squares);
  m.set_state(values, moments, squares, steps);
  return {std::move(extra), std::move(notice)};
}

}  // namespace train

RLCORE_END

#if defined(RLCORE_MODELS)
RLCORE_BEGIN
namespace train {

extern template void load_weights(trainable_model<cpu>&, const std::filesystem::path&);
extern template void load_weights(trainable_model<any_device>&, const std::filesystem::path&);
extern template void load_weights(frozen_model<cpu>&, const std::filesystem::path&, std::uint64_t);
extern template void load_weights(frozen_model<any_device>&, const std::filesystem::path&, std::uint64_t);
extern template void save_checkpoint(const trainable_model<cpu>&, const std::filesystem::path&, const model_source&,
                                     const nlohmann::ordered_json&);
extern template void save_checkpoint(const trainable_model<any_device>&, const std::filesystem::path&,
                                     const model_source&, const nlohmann::ordered_json&);
extern template restored_checkpoint restore_checkpoint(trainable_model<cpu>&, const std::filesystem::path&);
extern template restored_checkpoint restore_checkpoint(trainable_model<any_device>&, const std::filesystem::path&);

}  // namespace train
RLCORE_END
#endif
