// Weight synchronization: reshards weights from the training layout to the rollout layout, without a full copy on any
// rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "rlcore/nn/model/causal_lm.hpp"
#include "rlcore/parallel/communicator/any.hpp"
#include "rlcore/parallel/layout/reshard.hpp"
#include "rlcore/train/model/owned_runs.hpp"
#include "rlcore/train/model/trainable_model.hpp"

RLCORE_BEGIN
namespace train {

/// A piece of the model's weights and its location on a rank.
struct held_weights {
  parallel::shard_piece piece;
  const float* values = nullptr;
};

/// The weights this rank holds locally: its shard, or all of its parameters.
template <class Device>
std::vector<held_weights> weights_held(const trainable_model<Device>& t) {
  std::vector<held_weights> held;
  if (const float* shard = t.share().shard_of_weights())
    for (const owned_run& r : owned_runs(t.held(), t.pieces())) held.push_back({r.piece, shard + r.moments});
  else
    for (const nn::parameter& p : t.passing().parameters())
      held.push_back({nn::piece_of(p), t.passing().weights().data() + p.offset});
  return held;
}

/// Fills a model of any partition on every rank from a trained model of any partition, such as tensor parallel rollout
/// models from fully sharded training (verl's hybrid engine). Every rank receives missing weights directly from their
/// owners, in buckets: 2 M / r bytes in bf16 for M parameters and r tensor parallel ranks, where a broadcast takes 2 M.
template <class Device>
class weight_sync {
 public:
  /// Collective: created once by all ranks of the trained model's world. Throws std::invalid_argument when the models
  /// differ.
  weight_sync(const trainable_model<Device>& from, const nn::causal_lm<Device>& to) : plan_(make(from, to)) {}

  /// The transfers of a run().
  const parallel::reshard_plan& plan() const noexcept { return plan_; }

  /// Copies the current weights. Values are sent as `Wire`: float, or bf16, which rounds. At most `bucket` values come
  /// in and go out at a time. All ranks call it together.
  template <class Wire = float>
  void run(const trainable_model<Device>& from, nn::causal_lm<Device>& to,
           std::size_t bucket = std::size_t{1} << 24) const {
    const std::vector<held_weights> held = weights_held(from);
    const std::span<const nn::parameter> parameters = to.parameters();
    Device& device = to.device();
    float* const weights = to.weights().data();
    std::vector<float> values;
    plan_.template run<Wire>(
        from.world()->all(), bucket,
        [&](std::size_t piece, std::size_t first, std::span<Wire> out) {
          if constexpr (std::is_same_v<Wire, float>) {
            device.download(out.data(), held[piece].values + first, out.size_bytes());
          } else {
            values.resize(out.size());
            device.download(values.data(), held[piece].values + first, values.size() * sizeof(float));
            std::transform(values.begin(), values.end(), out.begin(), [](float x) { return Wire(x); });
          }
        },
        [&](std::size_t piece, std::size_t first, std::span<const Wire> in) {
          float* const place = weights + parameters[piece].offset + first;
          if constexpr (std::is_same_v<Wire, float>) {
            device.upload(place, in.data(), in.size_bytes());
          } else {
            values.assign(in.begin(), in.end());
            device.upload(place, values.data(), values.size() * sizeof(float));
          }
        });
    device.wait();
  }

 private:
  static parallel::reshard_plan make(const trainable_model<Device>& from, const nn::causal_lm<Device>& to) {
    std::vector<parallel::shard_piece> have, want;
    for (const held_weights& h : weights_held(from)) have.push_back(h.piece);
    for (const nn::parameter& p : to.parameters()) want.push_back(nn::piece_of(p));
    parallel::any_communicator& ranks = from.world()->all();
    const parallel::piece_layout before = parallel::gather_pieces(ranks, have),
                                 after = parallel::gather_pieces(ranks, want);
    return {before, after, static_cast<std::size_t>(ranks.rank())};
  }

  parallel::reshard_plan plan_;
};

}  // namespace train
RLCORE_END
