// y = x W^T + b, the layer that holds nearly all parameters.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/parameter.hpp"
#include "rlcore/nn/pass.hpp"

RLCORE_BEGIN
namespace nn {

inline constexpr std::size_t no_parameter = static_cast<std::size_t>(-1);

/// Offsets of the weight [outputs, inputs] and, unless no_parameter, the bias [outputs] in the model's weights, and the
/// number of the weight among the model's packed ones. Several projections of one input whose weights (and biases) lie
/// side by side are one linear.
struct linear {
  std::size_t weight = 0, bias = no_parameter;
  extent_t outputs = 0, inputs = 0;
  std::size_t number = 0;

  template <class Device>
  void forward(const pass<Device>& p, float* y, const float* x, extent_t rows) const {
    p.device.linear_forward(y, x, p.packed.at(number), p.packed.format,
                            bias == no_parameter ? nullptr : p.weights + bias, rows, outputs, inputs);
  }
  /// Adds to the gradients of the parameters (or, with p.first, makes the weight's) or of their adapters; writes dx
  /// unless it is null.
  template <class Device>
  void backward(const pass<Device>& p, float* dx, const float* dy, const float* x, extent_t rows) const {
    if (p.gradients) {
      p.device.linear_backward_weight(p.gradients + weight, dy, x, rows, outputs, inputs, !p.first);
      if (bias != no_parameter) p.device.sum_rows(p.gradients + bias, dy, rows, outputs);
    }
    if (p.adapter && p.adapter->linears[number].rank > 0) {
      const adapted_linear& l = p.adapter->linears[number];
      p.device.linear_forward(p.adapter->u, x, l.a, p.device.compute_format(), nullptr, rows, l.rank, inputs);
      p.device.linear_backward_input(p.adapter->du, dy, l.b, rows, outputs, l.rank, false);
      p.device.linear_backward_weight(l.db, dy, p.adapter->u, rows, outputs, l.rank, true);
      p.device.linear_backward_weight(l.da, p.adapter->du, x, rows, l.rank, inputs, true);
    }
    if (dx) p.device.linear_backward_input(dx, dy, p.weights + weight, rows, outputs, inputs, false);
  }
};

}  // namespace nn
RLCORE_END
