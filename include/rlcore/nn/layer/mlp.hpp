// Gated MLP (SwiGLU): down(silu(gate(x)) * up(x)).
#pragma once

#include "rlcore/nn/layer/linear.hpp"
#include "rlcore/nn/model/pass.hpp"

RLCORE_BEGIN
namespace nn {

/// gate_up: both projections side by side.
struct mlp {
  linear gate_up, down;

  extent_t width() const { return down.inputs; }

  /// Device memory for t tokens: gate_up [t, 2 width] and activated [t, width].
  template <class Device>
  mlp_activations take(workspace<Device>& space, extent_t t) const {
    return {space.template take<float>(t * 2 * width()), space.template take<float>(t * width())};
  }
  /// y [tokens, hidden] = down(silu(gate(x)) * up(x)) of x [tokens, hidden]; `a` stores the activations for the
  /// backward.
  template <class Device>
  void forward(const pass<Device>& p, const mlp_activations& a, float* y, const float* x) const {
    gate_up.forward(p, a.gate_up, x, p.tokens);
    p.device.run(op::swiglu_forward{.y = a.activated, .gate_up = a.gate_up, .rows = p.tokens, .width = width()});
    down.forward(p, y, a.activated, p.tokens);
  }
  /// dx from dy; dx may alias x. Overwrites the activations with their gradients.
  template <class Device>
  void backward(const pass<Device>& p, const mlp_activations& a, float* dx, const float* dy, const float* x) const {
    down.backward(p, a.activated, dy, a.activated, p.tokens);
    p.device.run(op::swiglu_backward{
        .dgate_up = a.gate_up, .dy = a.activated, .gate_up = a.gate_up, .rows = p.tokens, .width = width()});
    gate_up.backward(p, dx, a.gate_up, x, p.tokens);
  }
};

}  // namespace nn
RLCORE_END
