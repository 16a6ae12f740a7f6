// State in a checkpoint besides weights: moments, summation settings, LoRA adapters.
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
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/training_settings.hpp"

RLCORE_BEGIN
namespace train {

/// Reads the moments of `runs` from a checkpoint of any number of ranks; m and v are all moments of the optimizer.
/// Throws file_error or format_error naming the tensor.
inline void read_moments(const std::filesystem::path& folder, std::span<const owned_run> runs, std::span<float> m,
                         std::span<float> v) {
  const std::filesystem::path shards = checkpoint::find_shards(folder);
  for (const bool first : {true, false}) {
    const std::string kind = first ? "exp_avg" : "exp_avg_sq";
    const std::span<float> values = first ? m : v;
    if (!shards.empty()) {
      checkpoint::shard_reader reader(shards, kind);
      for (const owned_run& r : runs) reader.read(r.piece, values.subspan(r.moments, r.piece.size()));
      continue;
    }
    const checkpoint::safetensors_reader whole(folder / "optim.safetensors");
    for (const owned_run& r : runs) {
      const std::string name = kind + "." + r.piece.tensor;
      if (const auto& shape = whole.info(name).shape; shape != r.piece.shape)
        throw format_error(whole.path().string() + ": tensor '" + name + "' has shape " +
                           checkpoint::shape_text(shape) + "; expected " + checkpoint::shape_text(r.piece.shape));
      parallel::for_each_overlap(parallel::whole_tensor(name, r.piece.shape), r.piece,
                                 [&](std::size_t from, std::size_t to, std::size_t count) {
                                   whole.read_f32(name, values.subspan(r.moments + to, count), from);
                                 });
    }
  }
}

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
    reader.read(nn::piece_of(whole.back()), std::span(values).last(whole.back().size));
  }
  save_adapter(folder, model, lora, base_name, whole, values);
}

/// Fills `values` from either.
inline void read_adapter(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                         std::span<float> values) {
  const std::filesystem::path shards = checkpoint::find_shards(folder);
  if (shards.empty()) return checkpoint::load_adapter(folder / adapter_name, parameters, values);
  checkpoint::shard_reader reader(shards, "adapter");
  for (const nn::parameter& p : parameters) reader.read(nn::piece_of(p), values.subspan(p.offset, p.size));
}

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
    throw config_error(folder.string() + " has adapters of another base model than " + base.folder + " (fingerprint " +
                       then + ", here " + base.fingerprint + "): name the model that the run began with" +
                       (saved.base_model.empty() ? "" : ", " + saved.base_model));
}

}  // namespace train

RLCORE_END
