// A trained model's share of weights and moments as pieces of tensors, on the disk and back.
//
//   huggingface/     config, tokenizer; the weights too if they are asked for
//   shards/          weights (with LoRA: adapter), exp_avg and exp_avg_sq of what is trained, in pieces of all ranks
//   lora_adapter/    with LoRA: the adapters, as PEFT writes them
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "rlcore/checkpoint/model_config.hpp"
#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/checkpoint/shard_reader.hpp"
#include "rlcore/checkpoint/shard_writer.hpp"
#include "rlcore/checkpoint/stream_weights.hpp"
#include "rlcore/nn/config.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/settings.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace trainer {

/// Elements of one tensor that an optimizer holds: from `moments` on in the optimizer, from `weights` on in the model's
/// flat weights.
struct owned_run {
  checkpoint::shard_piece piece;
  std::size_t weights = 0, moments = 0;
};

/// The parts of `parameters` that `pieces` of their flat vector hold.
inline std::vector<owned_run> owned_runs(std::span<const nn::parameter> parameters,
                                         std::span<const optim::adamw_piece> pieces) {
  std::vector<owned_run> runs;
  for (const optim::adamw_piece& held : pieces)
    for (const nn::parameter& p : parameters) {
      const std::size_t first = std::max(p.offset, held.weights),
                        last = std::min(p.offset + p.size, held.weights + (held.last - held.first));
      if (first >= last) continue;
      runs.push_back({parallel::part_of(checkpoint::piece_of(p), first - p.offset, last - p.offset), first,
                      held.first + (first - held.weights)});
    }
  return runs;
}

/// Exempts norms and biases from weight decay. `optimizer` holds `pieces` of the parameters.
template <class Device>
void exempt_norms_and_biases(optim::adamw<Device>& optimizer, std::span<const nn::parameter> parameters,
                             std::span<const optim::adamw_piece> pieces) {
  for (const owned_run& r : owned_runs(parameters, pieces))
    if (r.piece.shape.size() == 1) optimizer.exempt(r.moments, r.moments + r.piece.size());
}

/// Writes the runs of all ranks to <folder>/shards: the weights of a run, at weights(run), as `kind`, and the moments.
template <class Device, class Weights>
void save_runs(parallel::any_communicator& ranks, const std::filesystem::path& folder, const std::string& kind,
               std::span<const owned_run> runs, Device& device, Weights&& weights, const float* m, const float* v) {
  std::vector<checkpoint::shard_piece> pieces;
  for (const owned_run& r : runs) pieces.push_back(r.piece);
  checkpoint::write_shards(ranks, folder / checkpoint::shard_folder_name, pieces, {kind, "exp_avg", "exp_avg_sq"},
                           [&](std::size_t k, std::size_t piece, std::size_t first, std::span<float> values) {
                             const owned_run& run = runs[piece];
                             const float* from = k == 0 ? weights(run) : (k == 1 ? m : v) + run.moments;
                             device.download(values.data(), from + first, values.size_bytes());
                           });
}

/// Writes the safetensors of <folder>/huggingface from the shards in `shards`. Rank 0 writes them block by block and
/// broadcasts after every `beat` bytes, so that no other rank waits longer than that takes.
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

/// Writes frozen weights as the safetensors of <folder>/huggingface. Every rank has all of them or its rectangles. They
/// pass through shards, which rank 0 deletes afterwards.
template <class Device>
void save_whole_weights(parallel::any_communicator& ranks, const std::filesystem::path& folder,
                        std::span<const nn::parameter> parameters, Device& device, const float* weights) {
  const std::filesystem::path passing = folder / "passing_shards";
  std::vector<checkpoint::shard_piece> pieces;
  for (const nn::parameter& p : parameters) pieces.push_back(checkpoint::piece_of(p));
  checkpoint::write_shards(ranks, passing, pieces, {"weights"},
                           [&](std::size_t, std::size_t piece, std::size_t first, std::span<float> values) {
                             device.download(values.data(), weights + parameters[piece].offset + first,
                                             values.size_bytes());
                           });
  save_weights_of_shards(ranks, folder, passing);
  if (ranks.rank() == 0) std::filesystem::remove_all(passing);
}

/// Reads the weights of `runs` into their places among the moments, from a checkpoint of any number of ranks. The
/// checkpoint has to contain all `parameters`. Throws file_error or format_error naming the tensor.
inline void read_weights(const std::filesystem::path& folder, std::span<const nn::parameter> parameters,
                         std::span<const owned_run> runs, std::span<float> values) {
  const checkpoint::tensor_folder from(folder / "huggingface");
  checkpoint::check_tensors(from, parameters, [](const std::string&) { return false; });
  for (const owned_run& r : runs) from.read_f32(r.piece, values.subspan(r.moments, r.piece.size()));
}

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

/// The settings that decide the bits of a run's sums, besides its rows; extra_state.json holds them as "sums".
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
    const nlohmann::json mine = nlohmann::json::parse(value.dump());
    if (!sums.contains(key) || sums[key] == mine) continue;
    then += (then.empty() ? "" : ", ") + key + "=" + sums[key].dump();
    now += (now.empty() ? "" : ", ") + value.dump();
  }
  if (then.empty()) return "";
  return folder.string() + " was saved with " + then + ", this run goes on with " + now +
         ": sums have other bits than in the run that saved";
}

/// extra_state.json and fsdp_config.json.
inline void save_settings(const std::filesystem::path& folder, const nlohmann::ordered_json& state, int ranks) {
  checkpoint::write_file_atomically(folder / "extra_state.json", state.dump(2) + "\n");
  const nlohmann::ordered_json fsdp{{"FSDP_version", 1}, {"world_size", ranks}};
  checkpoint::write_file_atomically(folder / "fsdp_config.json", fsdp.dump(2) + "\n");
}

}  // namespace trainer
RLCORE_END
