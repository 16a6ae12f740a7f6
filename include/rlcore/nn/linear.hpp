// y = x W^T + b, the layer that holds nearly all parameters.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/parameter.hpp"

RLCORE_BEGIN
namespace nn {

inline constexpr std::size_t no_parameter = static_cast<std::size_t>(-1);

/// Offsets of the weight [outputs, inputs] and, unless no_parameter, the bias [outputs] in the model's weights. Several
/// projections of one input whose weights (and biases) lie side by side are one linear.
struct linear {
  std::size_t weight = 0, bias = no_parameter;
  extent_t outputs = 0, inputs = 0;

  template <class Device>
  void forward(Device& device, const float* w, float* y, const float* x, extent_t rows) const {
    device.linear_forward(y, x, w + weight, bias == no_parameter ? nullptr : w + bias, rows, outputs, inputs);
  }
  /// Adds to the gradients `g` of the parameters; writes dx unless it is null.
  template <class Device>
  void backward(Device& device, const float* w, float* g, float* dx, const float* dy, const float* x,
                extent_t rows) const {
    device.linear_backward_weight(g + weight, dy, x, rows, outputs, inputs);
    if (bias != no_parameter) device.sum_rows(g + bias, dy, rows, outputs);
    if (dx) device.linear_backward_input(dx, dy, w + weight, rows, outputs, inputs, false);
  }
};

}  // namespace nn
RLCORE_END
