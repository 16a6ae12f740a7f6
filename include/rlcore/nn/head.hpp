// From hidden states to logits, for chosen rows only.
#pragma once

#include "rlcore/nn/linear.hpp"
#include "rlcore/nn/norm.hpp"
#include "rlcore/nn/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Final norm and the projection to the vocabulary; `logits.weight` is the embedding's when they are tied.
struct head {
  norm final_norm;
  linear logits;

  /// The rows `index` (device memory, n of them) of x, normed.
  template <class Device>
  head_activations gather(const pass<Device>& p, const float* x, const std::int32_t* index, extent_t n) const {
    const extent_t h = final_norm.width;
    head_activations a{p.space.template take<float>(n * h), p.space.template take<float>(n),
                       p.space.template take<float>(n * h)};
    p.device.gather_rows(a.rows, x, index, n, h);
    final_norm.forward(p.device, p.weights, a.normed, h, a.rows, h, a.rstd, n);
    return a;
  }
  /// out [n, vocabulary] for normed rows.
  template <class Device>
  void forward(const pass<Device>& p, float* out, const float* normed, extent_t n) const {
    logits.forward(p, out, normed, n);
  }
};

}  // namespace nn
RLCORE_END
