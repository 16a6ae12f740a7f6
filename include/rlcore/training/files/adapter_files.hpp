// LoRA adapter files of a checkpoint: lora_adapter/ in PEFT's format, or shards if several ranks saved them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/text/parse_json.hpp"

RLCORE_BEGIN
namespace trainer {

inline constexpr const char* adapter_name = "lora_adapter";

/// Saves `values`, those of the adapters of a model named `base_name`.
inline void save_adapter(const std::filesystem::path& folder, const nn::config& model, const nn::lora_settings& lora,
                         const std::string& base_name, std::span<const nn::parameter> parameters,
                         std::span<const float> values) {
  const bool score = model.output == nn::model_output::score;
  checkpoint::write_adapter(folder / adapter_name,
                            {lora, lora.scale(), base_name, score, score && model.score_bias, model.vision.has_value()},
                            parameters, values);
}

/// The same from the shards in `folder`; `parameters` are one rank's.
inline void save_adapter_of_shards(const std::filesystem::path& folder, const nn::config& model,
                                   const nn::lora_settings& lora, const std::string& base_name,
                                   std::span<const nn::parameter> parameters) {
  checkpoint::shard_reader reader(checkpoint::find_shards(folder), "adapter");
  std::vector<nn::parameter> whole;
  std::vector<float> values;
  for (const nn::parameter& p : parameters) {
    whole.push_back({p.name, p.whole_shape(), values.size(), parallel::elements_of(p.whole_shape())});
    values.resize(values.size() + whole.back().size);
    reader.read(checkpoint::piece_of(whole.back()), std::span(values).last(whole.back().size));
  }
  save_adapter(folder, model, lora, base_name, whole, values);
}

/// Fills `values` from either.
inline void read_adapter(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                         std::span<float> values) {
  const std::filesystem::path shards = checkpoint::find_shards(folder);
  if (shards.empty()) return checkpoint::load_adapter(folder / adapter_name, parameters, values);
  checkpoint::shard_reader reader(shards, "adapter");
  for (const nn::parameter& p : parameters) reader.read(checkpoint::piece_of(p), values.subspan(p.offset, p.size));
}

/// The model that adapters were attached to.
struct adapter_base {
  const std::filesystem::path& folder;
  const std::string& fingerprint;
};

/// Checks that the checkpoint and this run train the same adapters of the same base, or both none. The adapted modules
/// of a vision-language model are compared when their weights are read (checkpoint::load_adapter).
inline void check_adapter(const std::filesystem::path& folder, const checkpoint::json_file& extra,
                          const nn::lora_settings* lora, const adapter_base& base) {
  const bool there = checkpoint::is_adapter(folder / adapter_name);
  if (there != (lora != nullptr))
    throw config_error(folder.string() +
                       (there ? " was saved by a run with LoRA: give its rank, alpha and target modules"
                              : " was saved by a run that trained all weights: leave the LoRA rank at 0"));
  if (!there) return;
  if (base.fingerprint.empty()) throw std::logic_error("rlcore: restore: with LoRA the base has to be loaded first");
  const checkpoint::adapter_config saved = checkpoint::read_adapter_config(folder / adapter_name);
  const nn::lora_settings& ours = *lora;
  const auto text = [&](const nn::lora_settings& s) {
    std::string modules;
    if (saved.pictures) return "rank " + std::to_string(s.rank) + ", alpha " + text::json_text(nlohmann::json(s.alpha));
    for (const std::string& m : nn::check_lora(s)) modules += (modules.empty() ? "" : ",") + m;
    return "rank " + std::to_string(s.rank) + ", alpha " + text::json_text(nlohmann::json(s.alpha)) + ", " + modules;
  };
  if (text(saved.lora) != text(ours))
    throw config_error(folder.string() + " has LoRA adapters of " + text(saved.lora) + "; this run asks for " +
                       text(ours));
  if (const std::string then = extra.string("base_fingerprint"); then != base.fingerprint)
    throw config_error(folder.string() + " has adapters of another base model than " + base.folder.string() +
                       " (fingerprint " + then + ", here " + base.fingerprint +
                       "): name the model that the run began with" +
                       (saved.base_model.empty() ? "" : ", " + saved.base_model));
}

}  // namespace trainer
RLCORE_END
