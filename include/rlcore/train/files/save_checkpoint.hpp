// Saves a training checkpoint from one rank or several, and reads back moments, settings of sums and LoRA adapters.
//
//   huggingface/     config, tokenizer; the weights too if they are asked for
//   shards/          weights (with LoRA: adapter), exp_avg and exp_avg_sq of what is trained, in pieces of all ranks
//   lora_adapter/    with LoRA: the adapters, as PEFT writes them
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/checkpoint/adapter.hpp"
#include "rlcore/checkpoint/hugging_face.hpp"
#include "rlcore/checkpoint/json_file.hpp"
#include "rlcore/checkpoint/layout.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/safetensors_reader.hpp"
#include "rlcore/checkpoint/safetensors_writer.hpp"
#include "rlcore/checkpoint/shard_files.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/core/error.hpp"
#include "rlcore/data/file.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/lora/lora.hpp"
#include "rlcore/nn/lora/lora_settings.hpp"
#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/parallel/world.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/text/parse_json.hpp"
#include "rlcore/train/files/model_files.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/trainable_model.hpp"

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

/// The same from the shards in `folder`; `parameters` are lora::all_parameters(), of which whole tensors are written.
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

/// Fills `values` with this rank's part of the adapters in a checkpoint's folder: from its shards, or as PEFT writes
/// them.
template <class Device>
void read_adapter(const std::filesystem::path& folder, const nn::lora<Device>& adapter, std::span<float> values) {
  const std::filesystem::path shards = checkpoint::find_shards(folder);
  if (shards.empty())
    return checkpoint::load_adapter(folder / adapter_name, adapter.parameters(), values, adapter.all_parameters());
  checkpoint::shard_reader reader(shards, "adapter");
  for (const nn::parameter& p : adapter.parameters()) reader.read(nn::piece_of(p), values.subspan(p.offset, p.size));
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
    if (saved.images) return "rank " + std::to_string(s.rank) + ", alpha " + text::json_text(nlohmann::json(s.alpha));
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

/// The training state that a checkpoint saves.
template <class Device>
struct trained_state {
  const nn::causal_lm<Device>& model;
  const nn::lora<Device>* adapter = nullptr;  ///< null: all weights are trained
  const optim::adamw<Device>& optimizer;
  const std::string& base_name;         ///< what adapter folders call the base
  const model_source& from;             ///< its files are saved beside the weights
  const nlohmann::ordered_json& extra;  ///< extra_state.json
  bool save_whole = false;              ///< several ranks write the weights of huggingface/ too
};

/// extra_state.json and fsdp_config.json.
inline void save_settings(const std::filesystem::path& folder, const nlohmann::ordered_json& state, int ranks) {
  checkpoint::write_file_atomically(folder / "extra_state.json", text::json_text(state, 2) + "\n");
  const nlohmann::ordered_json fsdp{{"FSDP_version", 1}, {"world_size", ranks}};
  checkpoint::write_file_atomically(folder / "fsdp_config.json", text::json_text(fsdp, 2) + "\n");
}

/// Writes the files listed in trained_files.hpp from a rank that holds everything.
template <class Device>
void save_by_one(const std::filesystem::path& folder, const trained_state<Device>& state) {
  Device& device = state.model.device();
  const std::span<const nn::parameter> trained = state.adapter ? state.adapter->parameters() : state.model.parameters();
  save_model(folder / "huggingface", state.model, state.from);
  if (state.adapter)
    save_adapter(folder, state.model.settings(), state.adapter->settings(), state.base_name, trained,
                 to_host(device, state.adapter->values()));
  std::vector<float> m, v;
  checkpoint::write_safetensors(
      folder / "optim.safetensors",
      moment_tensors(trained, on_host(device, state.optimizer.m(), m), on_host(device, state.optimizer.v(), v)));
  save_settings(folder, state.extra, 1);
}

/// Writes the runs of all ranks to <folder>/shards: the weights of a run, at weights(run), as `kind`, and the moments.
template <class Device, class Weights>
void save_runs(parallel::any_communicator& ranks, const std::filesystem::path& folder, const std::string& kind,
               std::span<const owned_run> runs, Device& device, Weights&& weights,
               const optim::adamw<Device>& optimizer) {
  std::vector<checkpoint::shard_piece> pieces;
  for (const owned_run& r : runs) pieces.push_back(r.piece);
  checkpoint::write_shards(ranks, folder / checkpoint::shard_folder_name, pieces, {kind, "exp_avg", "exp_avg_sq"},
                           [&](std::size_t k, std::size_t piece, std::size_t first, std::span<float> values) {
                             const owned_run& run = runs[piece];
                             if (k > 0)
                               (k == 1 ? optimizer.m() : optimizer.v()).download(values, run.moments + first);
                             else
                               device.download(values.data(), weights(run) + first, values.size_bytes());
                           });
}

/// Writes the safetensors of <folder>/huggingface from the shards in `shards`. Rank 0 writes them block by block and
/// broadcasts after every `beat` bytes, so that no rank waits longer than for one beat.
inline void save_weights_of_shards(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                                   const std::filesystem::path& shards, std::uint64_t beat = std::uint64_t{1} << 30) {
  int more = 1;
  if (ranks.rank() != 0) {
    while (more != 0) ranks.broadcast(std::span<int>(&more, 1), 0);
    return;
  }
  checkpoint::folder_weights from(shards);
  std::uint64_t told = 0;
  checkpoint::stream_to_folder(from, folder / "huggingface", {checkpoint::stored_type::f32},
                               [&](std::uint64_t done, std::uint64_t) {
                                 if (done - told < beat) return;
                                 told = done;
                                 ranks.broadcast(std::span<int>(&more, 1), 0);
                               });
  more = 0;
  ranks.broadcast(std::span<int>(&more, 1), 0);
}

/// Writes frozen weights as the safetensors of <folder>/huggingface; this rank holds `mine`. They are staged as shards,
/// which rank 0 deletes afterwards.
template <class Device>
void save_whole_weights(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                        std::span<const held_weights> mine, Device& device) {
  const std::filesystem::path passing = folder / "passing_shards";
  std::vector<checkpoint::shard_piece> pieces;
  for (const held_weights& h : mine) pieces.push_back(h.piece);
  checkpoint::write_shards(ranks, passing, pieces, {"weights"},
                           [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> values) {
                             device.download(values.data(), mine[piece].values + first, values.size_bytes());
                           });
  save_weights_of_shards(ranks, folder, passing);
  if (ranks.rank() == 0) std::filesystem::remove_all(passing);
}

/// Writes the folders listed above. This rank's optimizer holds `runs`, whose trained values are at
/// place_of(run), and with adapters `merged` of the model's weights. All ranks call it together.
template <class Device, class PlaceOf>
void save_by_ranks(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                   const trained_state<Device>& state, std::span<const owned_run> runs, PlaceOf&& place_of,
                   std::span<const held_weights> merged) {
  const nn::causal_lm<Device>& model = state.model;
  save_runs(ranks, folder, state.adapter ? "adapter" : "weights", runs, model.device(), place_of, state.optimizer);
  if (ranks.rank() == 0) {
    save_config(folder / "huggingface", model, state.from);
    if (state.adapter)
      save_adapter_of_shards(folder, model.settings(), state.adapter->settings(), state.base_name,
                             state.adapter->all_parameters());
    save_settings(folder, state.extra, ranks.size());
  }
  if (state.save_whole && state.adapter) save_whole_weights(ranks, folder, merged, model.device());
  if (state.save_whole && !state.adapter) save_weights_of_shards(ranks, folder, folder / checkpoint::shard_folder_name);
  ranks.barrier();
}

/// Returns the first rank's `x` on every rank.
template <class T>
T from_first(parallel::world& ranks, T x) {
  static_assert(std::is_trivially_copyable_v<T>);
  ranks.all().broadcast(std::span<T>(&x, 1), 0);
  return x;
}

/// Calls checkpoint::save_step() for one rank, or for all `ranks` together.
template <class Write>
void save_step_together(const std::filesystem::path& root, std::int64_t step, std::int64_t keep, parallel::world* ranks,
                        Write&& write) {
  if (ranks == nullptr || ranks->all().size() == 1)
    return checkpoint::save_step(root, step, keep, std::forward<Write>(write));
  checkpoint::save_step(ranks->all(), root, step, keep, std::forward<Write>(write));
}

}  // namespace train
RLCORE_END
