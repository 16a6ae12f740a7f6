// Which elements of which tensors a rank's optimizer and memory hold.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/optim/adamw.hpp"
#include "rlcore/parallel/layout/held_pieces.hpp"
#include "rlcore/tensor/buffer.hpp"

RLCORE_BEGIN
namespace train {

/// Elements of one tensor held by an optimizer: at offset `moments` in the optimizer, at offset `weights` in the
/// model's flat weights.
struct owned_run {
  parallel::shard_piece piece;
  std::size_t weights = 0, moments = 0;
};

/// The parts of `parameters` inside `pieces` of their flat vector.
inline std::vector<owned_run> owned_runs(std::span<const nn::parameter> parameters,
                                         std::span<const optim::adamw_piece> pieces) {
  std::vector<owned_run> runs;
  for (const optim::adamw_piece& held : pieces)
    for (const nn::parameter& p : parameters) {
      const std::size_t first = std::max(p.offset, held.weights),
                        last = std::min(p.offset + p.size, held.weights + (held.last - held.first));
      if (first >= last) continue;
      runs.push_back({parallel::part_of(nn::piece_of(p), first - p.offset, last - p.offset), first,
                      held.first + (first - held.weights)});
    }
  return runs;
}

/// A piece of a tensor, and where its values begin in some memory.
struct placed_piece {
  parallel::shard_piece piece;
  std::size_t at = 0;
};

/// A piece of a model's weights, and its values on this rank.
struct held_weights {
  parallel::shard_piece piece;
  const float* values = nullptr;
};
/// Those of `parameters`, which lie at their offsets in `weights`.
inline std::vector<held_weights> held_whole(std::span<const nn::parameter> parameters, const float* weights) {
  std::vector<held_weights> held;
  for (const nn::parameter& p : parameters) held.push_back({nn::piece_of(p), weights + p.offset});
  return held;
}

/// Weights of a model in a rank's memory.
template <class Device>
struct resident_weights {
  buffer<float, Device>& values;
  std::vector<placed_piece> pieces = {};

  /// Those of `values` that are in `runs`, at the places of the moments.
  resident_weights(buffer<float, Device>& of, std::span<const owned_run> runs) : values(of) {
    for (const owned_run& r : runs) pieces.push_back({r.piece, r.moments});
  }
  /// All `parameters`.
  resident_weights(buffer<float, Device>& of, std::span<const nn::parameter> parameters) : values(of) {
    for (const nn::parameter& p : parameters) pieces.push_back({nn::piece_of(p), p.offset});
  }
};

/// Exempts norms and biases from weight decay. `optimizer` holds `pieces` of the parameters.
template <class Device>
void exempt_norms_and_biases(optim::adamw<Device>& optimizer, std::span<const nn::parameter> parameters,
                             std::span<const optim::adamw_piece> pieces) {
  for (const owned_run& r : owned_runs(parameters, pieces))
    if (r.piece.shape.size() == 1) optimizer.exempt(r.moments, r.moments + r.piece.size());
}

/// Freezes the parameters whose names start with `prefix` in an optimizer of these pieces.
template <class Device>
void freeze_parameters(optim::adamw<Device>& optimizer, std::span<const nn::parameter> parameters,
                       std::span<const optim::adamw_piece> pieces, std::string_view prefix) {
  for (const owned_run& r : owned_runs(parameters, pieces))
    if (r.piece.tensor.starts_with(prefix)) optimizer.freeze(r.moments, r.moments + r.piece.size());
}

}  // namespace train

RLCORE_END
