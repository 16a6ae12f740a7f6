// RMSNorm with a weight.
#pragma once

#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN
namespace nn {

/// Offset of the weight [width]; normalises `groups` consecutive slices of `width` in each row (groups > 1: per head).
struct norm {
  std::size_t weight = 0;
  extent_t width = 0, groups = 1;
  double eps = 1e-6;

  /// Kernel arguments: this norm with its weight in `w` and a row stride of `row` floats.
  norm_arguments arguments(offset_pointer<const float> w, extent_t row) const {
    return {row, groups, width, w + weight, eps};
  }

  /// y and x with their row strides; rstd [rows, groups] is kept for the backward.
  template <class Device>
  void forward(Device& device, offset_pointer<const float> w, float* y, extent_t y_row, const float* x, extent_t x_row,
               float* rstd, extent_t rows) const {
    device.run(
        op::rms_norm_forward{.norm = arguments(w, x_row), .y = y, .y_row = y_row, .x = x, .rstd = rstd, .rows = rows});
  }
  /// Fused residual add and norm: total = a + b, y = norm(total); rows [rows, width], groups = 1.
  template <class Device>
  void forward_of_sum(Device& device, offset_pointer<const float> w, float* total, const float* a, const float* b,
                      float* y, float* rstd, extent_t rows) const {
    device.run(op::add_rms_norm_forward{
        .norm = arguments(w, width), .total = total, .a = a, .b = b, .y = y, .rstd = rstd, .rows = rows});
  }
  /// dx has the row stride of dy and may alias dy; with `accumulate` adds to dx. `g` is null for a frozen weight.
  template <class Device>
  void backward(Device& device, offset_pointer<const float> w, offset_pointer<float> g, float* dx, const float* dy,
                extent_t dy_row, const float* x, extent_t x_row, const float* rstd, extent_t rows,
                bool accumulate) const {
    if (g)
      device.run(op::rms_norm_backward_weight{.norm = arguments(w, x_row),
                                              .dweight = g + weight,
                                              .dy = dy,
                                              .dy_row = dy_row,
                                              .x = x,
                                              .rstd = rstd,
                                              .rows = rows});
    device.run(op::rms_norm_backward{.norm = arguments(w, x_row),
                                     .dx = dx,
                                     .dy = dy,
                                     .dy_row = dy_row,
                                     .x = x,
                                     .rstd = rstd,
                                     .rows = rows,
                                     .accumulate = accumulate});
  }
};

}  // namespace nn
RLCORE_END
