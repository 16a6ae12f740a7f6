// The linear layer y = x W^T + b, and the gated MLP (SwiGLU) down(silu(gate(x)) * up(x)).
#pragma once

#include <array>
#include <cstddef>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/device.hpp"
#include "rlcore/nn/model/parameter.hpp"
#include "rlcore/nn/model/pass.hpp"
#include "rlcore/nn/parallel/tensor_pass.hpp"

RLCORE_BEGIN
namespace nn {

/// out [count] = the pairwise sum of parts first .. first + n, n a power of two, in the order of parallel::tree.
/// f(part, out) writes one part.
template <class Device, class F>
void sum_of_chunks(const pass<Device>& p, float* out, extent_t count, extent_t first, extent_t n, F&& f) {
  if (n == 1) return f(first, out);
  sum_of_chunks(p, out, count, first, n / 2, f);
  const typename workspace<Device>::scope scope(p.space);
  float* right = p.space.template take<float>(count);
  sum_of_chunks(p, right, count, first + n / 2, n / 2, f);
  p.device.run(op::add{.y = out, .a = out, .b = right, .n = count});
}

/// Columns [first, first + width) of x [rows, row], contiguous; x itself if width is row.
template <class Device>
const float* columns_of(const pass<Device>& p, const float* x, extent_t row, extent_t first, extent_t width,
                        extent_t rows) {
  if (width == row) return x;
  float* part = p.space.template take<float>(rows * width);
  p.device.run(op::copy_rows{.y = part, .y_row = width, .x = x + first, .x_row = row, .count = rows, .width = width});
  return part;
}

/// Bytes between the chunks of a packed weight whose inputs are split into chunks.
template <class Device>
std::size_t packed_chunk_bytes(Device& device, weight_format format, extent_t outputs, extent_t inputs) {
  return (device.packed_bytes(format, outputs, inputs) + 63) / 64 * 64;
}

inline constexpr std::size_t no_parameter = static_cast<std::size_t>(-1);

/// Offsets of the weight [outputs, inputs] and, unless no_parameter, the bias [outputs] in the model's weights, and the
/// index of the weight among the packed weights. Projections of the same input with adjacent weights (and biases) form
/// one fused linear.
///
/// Tensor parallelism splits the outputs (column parallel) or, with `row_parallel`, the inputs. Then dx, or y, is this
/// rank's partial sum. The sum is computed in `chunks` equal parts of the inputs, or of the outputs of each of the
/// adjacent `sections`.
struct linear {
  std::size_t weight = 0, bias = no_parameter;
  extent_t outputs = 0, inputs = 0;
  std::size_t number = 0;
  bool row_parallel = false;
  extent_t chunks = 1;
  std::array<extent_t, 3> sections = {};

  /// y [rows, outputs] = x W^T + b of x [rows, inputs]. With `row_parallel` y is this rank's partial sum; only tensor
  /// rank 0 adds b.
  template <class Device>
  void forward(const pass<Device>& p, float* y, const float* x, extent_t rows) const {
    const bool adds_bias = bias != no_parameter && !(row_parallel && p.tensor && p.tensor->rank() > 0);
    const float* b = adds_bias ? p.weights + bias : nullptr;
    multiply(p, y, x, {p.packed.at(number), p.packed.format, outputs}, b, rows);
  }
  /// Adds to the gradients of the parameters (with p.first, overwrites the weight's) or of their adapters; writes dx
  /// unless it is null.
  template <class Device>
  void backward(const pass<Device>& p, float* dx, const float* dy, const float* x, extent_t rows) const {
    if (p.gradients) {
      p.device.run(op::linear_backward_weight{.dweight = p.gradients + weight,
                                              .dy = dy,
                                              .x = x,
                                              .rows = rows,
                                              .outputs = outputs,
                                              .inputs = inputs,
                                              .accumulate = !p.first});
      if (bias != no_parameter)
        p.device.run(op::sum_rows{.total = p.gradients + bias, .x = dy, .rows = rows, .width = outputs});
    }
    if (p.adapter && p.adapter->linears[number].rank > 0) {
      const adapted_linear& l = p.adapter->linears[number];
      multiply(p, p.adapter->u, x, {l.a, p.device.compute_format(), l.rank}, nullptr, rows);
      if (row_parallel) sum_over_ranks(p, p.adapter->u, rows * l.rank);
      multiply_slopes(p, p.adapter->du, dy, l.b, l.rank, nullptr, rows);
      if (splits_outputs()) sum_over_ranks(p, p.adapter->du, rows * l.rank);
      p.device.run(op::linear_backward_weight{.dweight = l.db,
                                              .dy = dy,
                                              .x = p.adapter->u,
                                              .rows = rows,
                                              .outputs = outputs,
                                              .inputs = l.rank,
                                              .accumulate = true});
      p.device.run(op::linear_backward_weight{.dweight = l.da,
                                              .dy = p.adapter->du,
                                              .x = x,
                                              .rows = rows,
                                              .outputs = l.rank,
                                              .inputs = inputs,
                                              .accumulate = true});
    }
    if (dx) multiply_slopes(p, dx, dy, p.weights + weight, inputs, chunks == 1 ? p.packed.find(number) : nullptr, rows);
  }

 private:
  /// Does tensor parallelism split the outputs?
  bool splits_outputs() const { return !row_parallel && sections[0] > 0; }

  struct packed_matrix {
    const std::byte* data;
    weight_format format;
    extent_t outputs;
  };
  /// y [rows, w.outputs] = x W^T + b of x [rows, inputs]; the packed W has as many chunks as the inputs.
  template <class Device>
  void multiply(const pass<Device>& p, float* y, const float* x, const packed_matrix& w, const float* b,
                extent_t rows) const {
    const extent_t parts = row_parallel ? chunks : 1, width = inputs / parts;
    const std::size_t bytes = parts == 1 ? 0 : packed_chunk_bytes(p.device, w.format, w.outputs, width);
    sum_of_chunks(p, y, rows * w.outputs, 0, parts, [&](extent_t c, float* out) {
      const typename workspace<Device>::scope scope(p.space);
      p.device.run(op::linear_forward{.y = out,
                                      .x = columns_of(p, x, inputs, c * width, width, rows),
                                      .packed = w.data + static_cast<std::size_t>(c) * bytes,
                                      .format = w.format,
                                      .bias = c == 0 ? b : nullptr,
                                      .rows = rows,
                                      .outputs = w.outputs,
                                      .inputs = width});
    });
  }
  /// dx [rows, n] = dy W of dy [rows, outputs] and W [outputs, n]; `packed`, if not null, is W in p.packed.format.
  template <class Device>
  void multiply_slopes(const pass<Device>& p, float* dx, const float* dy, const float* w, extent_t n,
                       const std::byte* packed, extent_t rows) const {
    if (row_parallel || chunks == 1)
      return p.device.run(op::linear_backward_input{.dx = dx,
                                                    .dy = dy,
                                                    .weight = w,
                                                    .packed = packed,
                                                    .format = p.packed.format,
                                                    .rows = rows,
                                                    .outputs = outputs,
                                                    .inputs = n});
    sum_of_chunks(p, dx, rows * n, 0, chunks, [&](extent_t c, float* out) {
      const typename workspace<Device>::scope scope(p.space);
      extent_t first = 0;
      for (const extent_t section : sections) {
        const extent_t width = section / chunks, at = first + c * width;
        if (width == 0) continue;
        p.device.run(op::linear_backward_input{.dx = out,
                                               .dy = columns_of(p, dy, outputs, at, width, rows),
                                               .weight = w + static_cast<std::size_t>(at * n),
                                               .rows = rows,
                                               .outputs = width,
                                               .inputs = n,
                                               .accumulate = first > 0});
        first += section;
      }
    });
  }
};

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
