// The forward pass of scoring: the last hidden states of chosen rows in the memory of one layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/nn/causal_lm.hpp"
#include "rlcore/nn/embedding.hpp"
#include "rlcore/nn/packed_batch.hpp"

RLCORE_BEGIN
namespace nn {

/// The normed hidden states [count, hidden] of `rows` of the packed batch, or of this rank's part of them if the
/// workspace has a context group, and the pass that they belong to.
template <class Device>
struct normed_rows {
  std::optional<context_pass<Device>> context;
  nn::pass<Device> pass;
  extent_t count = 0;
  const float* normed = nullptr;

  normed_rows(const causal_lm<Device>& model, workspace<Device>& space, const ragged<std::int32_t>& sequences,
              std::span<const std::int32_t> rows)
      : pass{model.device(), space} {
    space.reset();
    pass.context = share_sequences(context, model, space, sequences, rows);
    const packed_batch<Device> batch(model, space, sequences, rows, pass.context);
    if (rows.empty()) return;
    if (context) rows = context->targets().rows();
    const auto n = count = static_cast<extent_t>(rows.size());
    pass.weights = model.weights().data(), pass.packed = model.packed();
    pass.tokens = batch.tokens, pass.positions = batch.positions;
    const auto h = static_cast<extent_t>(model.settings().hidden_size);
    float *x = space.template take<float>(batch.tokens * h), *y = space.template take<float>(batch.tokens * h);
    pass.tensor = model.tensor();
    if (model.part().expert_size > 1) pass.expert = space.experts;
    embed(model, pass, x,
          context ? std::span<const std::int32_t>(space.ids) : std::span<const std::int32_t>(sequences.values),
          batch.ids);
    const extent_t most = std::max(batch.tokens, n);
    const block_activations a = take_for_any(model.blocks(), space, most, most);
    const std::span<const block> blocks = model.blocks();
    if (context && batch.tokens == 0) {
      for (const block& b : blocks) context->forward({}), b.feed_nothing(pass, a);
      return;
    }
    for (const block& b : blocks.first(blocks.size() - 1)) {
      b.forward(pass, a, y, x, place_in_rows(space, b.mixer));
      std::swap(x, y);
    }
    float* last = space.template take<float>(n * h);
    blocks.back().forward_rows(pass, a, last, x, place_in_rows(space, blocks.back().mixer),
                               space.take_copy(rows.data(), n), n);
    normed = model.head().normed(pass, last, n).normed;
  }

  /// This rank's part of a list of the host with one value for each of `rows`.
  std::span<const std::int32_t> own(std::span<const std::int32_t> all) {
    if (!context) return all;
    context->targets().choose(all, own_);
    return own_;
  }
  /// The results of all rows out of those of this rank's, `computed` [count], which are the first of them here.
  void download(std::span<float> results, const float* computed) {
    pass.device.download(results.data(), computed, static_cast<std::size_t>(count) * sizeof(float));
    gather(results);
  }
  template <class T>
  void gather(std::span<T> results) {
    if (!context) return;
    const std::vector<T> mine(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(count));
    context->gather(std::span<const T>(mine), results);
  }

 private:
  std::vector<std::int32_t> own_;
};

}  // namespace nn
RLCORE_END
