// The forward pass of scoring: the last hidden states of chosen rows in the memory of one layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/embedding.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// The normed hidden states [rows, hidden] of `rows` of the packed batch, and the pass that they belong to.
template <class Device>
struct normed_rows {
  nn::pass<Device> pass;
  const float* normed = nullptr;

  normed_rows(const causal_lm<Device>& model, workspace<Device>& space, const ragged<std::int32_t>& sequences,
              std::span<const std::int32_t> rows)
      : pass{model.device(), space} {
    space.reset();
    const packed_batch<Device> batch(model, space, sequences, rows);
    const auto n = static_cast<extent_t>(rows.size());
    if (n == 0) return;
    pass.weights = model.weights().data(), pass.packed = model.packed();
    pass.tokens = batch.tokens, pass.positions = batch.positions;
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    float *x = space.template take<float>(batch.tokens * h), *y = space.template take<float>(batch.tokens * h);
    pass.tensor = model.tensor();
    embed(model, pass, x, sequences.values, batch.ids);
    const block_activations a = model.blocks().front().take(space, std::max(batch.tokens, n));
    const std::span<const block> blocks = model.blocks();
    for (const block& b : blocks.first(blocks.size() - 1)) {
      b.forward(pass, a, y, x, place_in_rows(space, b.mixer));
      std::swap(x, y);
    }
    float* last = space.template take<float>(n * h);
    blocks.back().forward_rows(pass, a, last, x, place_in_rows(space, blocks.back().mixer),
                               space.take_copy(rows.data(), n), n);
    normed = model.head().normed(pass, last, n).normed;
  }
};

}  // namespace nn
RLCORE_END
