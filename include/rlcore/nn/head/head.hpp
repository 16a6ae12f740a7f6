// From hidden states to logits, for chosen rows only.
#pragma once

#include "rlcore/nn/head/vocabulary_chunks.hpp"
#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Final norm and the projection to the vocabulary or to one score; `output.weight` is the embedding's when they are
/// tied. The projection to the vocabulary has no bias.
struct head {
  norm final_norm;
  linear output;
  vocabulary_chunks chunks;  ///< of the outputs; says nothing about a score

  /// Columns of chunk c of those here.
  slice columns(extent_t c) const {
    return chunks.apart() ? chunks.columns(c) : slice{0, static_cast<std::int64_t>(output.outputs)};
  }

  /// The rows `index` (device memory, n of them) of x, normed.
  template <class Device>
  head_activations gather(const pass<Device>& p, const float* x, const std::int32_t* index, extent_t n) const {
    float* rows = p.space.template take<float>(n * final_norm.width);
    p.device.gather_rows(rows, x, p.tokens, index, n, final_norm.width);
    return normed(p, rows, n);
  }
  /// rows [n, hidden], normed.
  template <class Device>
  head_activations normed(const pass<Device>& p, float* rows, extent_t n) const {
    const extent_t h = final_norm.width;
    head_activations a{rows, p.space.template take<float>(n), p.space.template take<float>(n * h)};
    final_norm.forward(p.device, p.weights, a.normed, h, a.rows, h, a.rstd, n);
    return a;
  }
  /// out [n, vocabulary] or scores [n] for normed rows.
  template <class Device>
  void forward(const pass<Device>& p, float* out, const float* normed, extent_t n) const {
    output.forward(p, out, normed, n);
  }

  /// Columns [first, first + count) alone, out [n, count]; first is a multiple of 32. Same bits as in forward().
  template <class Device>
  void forward_columns(const pass<Device>& p, float* out, const float* normed, extent_t n, extent_t first,
                       extent_t count) const {
    p.device.linear_forward(out, normed,
                            p.packed.at(output.number) + p.device.packed_bytes(p.packed.format, first, output.inputs),
                            p.packed.format, nullptr, n, count, output.inputs);
  }
  /// From the gradient dout of forward_columns: adds to (with p.first: writes) the weight's gradient; writes dnormed
  /// [n, hidden] or adds to it.
  template <class Device>
  void backward_columns(const pass<Device>& p, float* dnormed, const float* dout, const float* normed, extent_t n,
                        extent_t first, extent_t count, bool accumulate) const {
    const std::size_t at = output.weight + static_cast<std::size_t>(first * output.inputs);
    if (p.gradients) p.device.linear_backward_weight(p.gradients + at, dout, normed, n, count, output.inputs, !p.first);
    p.device.linear_backward_input(dnormed, dout, p.weights + at, n, count, output.inputs, accumulate);
  }
};

}  // namespace nn
RLCORE_END
