// Parts of tensors held by an optimizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "rlcore/checkpoint/model_weights.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/optim/adamw.hpp"

RLCORE_BEGIN
namespace trainer {

/// Elements of one tensor held by an optimizer: at offset `moments` in the optimizer, at offset `weights` in the
/// model's flat weights.
struct owned_run {
  checkpoint::shard_piece piece;
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

/// Freezes the parameters whose names start with `prefix` in an optimizer of these pieces.
template <class Device>
void freeze_parameters(optim::adamw<Device>& optimizer, std::span<const nn::parameter> parameters,
                       std::span<const optim::adamw_piece> pieces, std::string_view prefix) {
  for (const owned_run& r : owned_runs(parameters, pieces))
    if (r.piece.tensor.starts_with(prefix)) optimizer.freeze(r.moments, r.moments + r.piece.size());
}

}  // namespace trainer
RLCORE_END
