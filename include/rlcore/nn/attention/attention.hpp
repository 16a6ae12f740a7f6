// Causal grouped-query self-attention (GQA) with RoPE; Qwen3 normalises q and k per head first.
#pragma once

#include <cstddef>

#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/layer/norm.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/parallel/context_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// Overwrites dy (row stride `dy_row`) with the gradient of n's input. The weight's gradient is summed over rows and
/// heads in order. With p.head_gradients it is summed over the rows of each head separately, [heads, width] from `sums`
/// on, and the heads are added later in order, so that tensor parallel ranks are bit-identical to one rank.
template <class Device>
void backward_of_heads(const pass<Device>& p, const norm& n, std::size_t sums, float* dy, extent_t dy_row,
                       const float* x, extent_t x_row, const float* rstd) {
  const extent_t t = p.tokens;
  const bool apart = p.gradients && p.head_gradients;
  if (apart) {
    const typename workspace<Device>::scope scope(p.space);
    float* rstd_of_head = p.space.template take<float>(t);
    norm one = n;
    one.groups = 1;
    for (extent_t g = 0; g < n.groups; ++g) {
      p.device.run(
          op::copy_rows{.y = rstd_of_head, .y_row = 1, .x = rstd + g, .x_row = n.groups, .count = t, .width = 1});
      p.device.run(
          op::rms_norm_backward_weight{.norm = one.arguments(p.weights, x_row),
                                       .dweight = p.head_gradients + sums + static_cast<std::size_t>(g * n.width),
                                       .dy = dy + g * n.width,
                                       .dy_row = dy_row,
                                       .x = x + g * n.width,
                                       .rstd = rstd_of_head,
                                       .rows = t});
    }
  }
  n.backward(p.device, p.weights, apart ? nullptr : p.gradients, dy, dy, dy_row, x, x_row, rstd, t, false);
}

/// qkv: the three projections side by side; output: o_proj.
struct attention {
  linear qkv, output;
  norm q_norm, k_norm;
  bool norms = false;
  std::size_t head_sums = 0;  ///< offset of this layer's [heads + kv_heads, head_dim] in pass::head_gradients
  attention_shape shape;

  extent_t q_width() const { return shape.heads * shape.head_dim; }
  extent_t kv_width() const { return shape.kv_heads * shape.head_dim; }
  extent_t width() const { return q_width() + 2 * kv_width(); }

  /// Device memory for t tokens: qkv [t, width()], attended [t, q_width()], statistics [t, heads, 2], and with `norms`
  /// the unnormalised q and k and their rstd.
  template <class Device>
  attention_activations take(workspace<Device>& space, extent_t t) const {
    attention_activations a;
    a.qkv = space.template take<float>(t * width());
    if (norms) {
      a.raw = space.template take<float>(t * (q_width() + kv_width()));
      a.rstd_q = space.template take<float>(t * shape.heads);
      a.rstd_k = space.template take<float>(t * shape.kv_heads);
    }
    a.attended = space.template take<float>(t * q_width());
    a.statistics = space.template take<float>(t * shape.heads * 2);
    return a;
  }

  /// y = attention of x. `place(qkv)` returns the segments of keys and values to read, and may store them there first.
  /// Context parallelism ignores it.
  template <class Device, class Place>
  void forward(const pass<Device>& p, const attention_activations& a, float* y, const float* x, Place&& place) const {
    const extent_t qk = q_width() + kv_width(), t = p.tokens;
    qkv.forward(p, a.qkv, x, t);
    if (norms) {
      p.device.run(op::copy_rows{.y = a.raw, .y_row = qk, .x = a.qkv, .x_row = width(), .count = t, .width = qk});
      q_norm.forward(p.device, p.weights, a.qkv, width(), a.raw, qk, a.rstd_q, t);
      k_norm.forward(p.device, p.weights, a.qkv + q_width(), width(), a.raw + q_width(), qk, a.rstd_k, t);
    }
    p.device.run(op::rope{.x = a.qkv,
                          .row = width(),
                          .heads = shape.heads + shape.kv_heads,
                          .head_dim = shape.head_dim,
                          .positions = p.positions,
                          .cosine = p.space.cosine(),
                          .sine = p.space.sine(),
                          .rows = t});
    if (p.context)
      p.context->forward(a);
    else
      p.device.run(op::attention_forward{.shape = shape,
                                         .segments = place(a.qkv),
                                         .q = a.qkv,
                                         .q_row = width(),
                                         .out = a.attended,
                                         .out_row = q_width(),
                                         .statistics = a.statistics});
    output.forward(p, y, a.attended, t);
  }

  /// dx from dy; x is the forward's input. `place` as in the forward; `place_gradient(dqkv)` does the same for the
  /// gradients.
  template <class Device, class Place, class PlaceGradient>
  void backward(const pass<Device>& p, const attention_activations& a, float* dx, const float* dy, const float* x,
                float* dqkv, float* dattended, Place&& place, PlaceGradient&& place_gradient) const {
    const extent_t qk = q_width() + kv_width(), t = p.tokens;
    output.backward(p, dattended, dy, a.attended, t);
    p.device.fill_zero(dqkv, static_cast<std::size_t>(t * width()) * sizeof(float));
    if (p.context)
      p.context->backward(a, dattended, dqkv);
    else
      p.device.run(op::attention_backward{.shape = shape,
                                          .segments = place(a.qkv),
                                          .gradients = place_gradient(dqkv),
                                          .q = a.qkv,
                                          .q_row = width(),
                                          .out = a.attended,
                                          .dout = dattended,
                                          .out_row = q_width(),
                                          .statistics = a.statistics,
                                          .dq = dqkv});
    p.device.run(op::rope{.x = dqkv,
                          .row = width(),
                          .heads = shape.heads + shape.kv_heads,
                          .head_dim = shape.head_dim,
                          .positions = p.positions,
                          .cosine = p.space.cosine(),
                          .sine = p.space.sine(),
                          .rows = t,
                          .inverse = true});
    if (norms) {
      const std::size_t k_sums = head_sums + static_cast<std::size_t>(q_width());
      backward_of_heads(p, q_norm, head_sums, dqkv, width(), a.raw, qk, a.rstd_q);
      backward_of_heads(p, k_norm, k_sums, dqkv + q_width(), width(), a.raw + q_width(), qk, a.rstd_k);
    }
    qkv.backward(p, dx, dqkv, x, t);
  }
};

}  // namespace nn

RLCORE_END
