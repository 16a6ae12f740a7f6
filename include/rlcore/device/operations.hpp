// The operations of a device, one struct per kernel, and their lists: device.run(op::linear_forward{.y = y, ...}).
//
// All pointers are device memory unless a comment says host. Matrices are row-major and without gaps; a member like
// `y_row` gives the distance from row to row where there may be gaps. Comments write [t,o] for `rows` rows of `outputs`
// values, i for inputs, w for width. y and x are values, dy and dx gradients; "(+)=" adds with `accumulate`.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/arguments.hpp"
#include "rlcore/device/loss_operations.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// The operations of a device; see rlcore::device.
namespace op {

/// Packs weight[o,i] in the device's own order: packed_bytes(format, outputs, inputs) bytes.
struct pack_weight {
  std::byte* packed = nullptr;
  weight_format format = weight_format::float32;
  const float* weight = nullptr;
  extent_t outputs = 0, inputs = 0;
};

/// y[t,o] = x[t,i] weight[o,i]^T + bias[o]; bias may be null.
struct linear_forward {
  float* y = nullptr;
  const float* x = nullptr;
  const std::byte* packed = nullptr;  ///< the packed weight
  weight_format format = weight_format::float32;
  const float* bias = nullptr;
  extent_t rows = 0, outputs = 0, inputs = 0;
};

/// dx[t,i] (+)= dy[t,o] weight[o,i]. The packed copy of the same weight, or null, is for devices that prefer it: where
/// products round their inputs to its format, it has the bits of the weight.
struct linear_backward_input {
  float* dx = nullptr;
  const float *dy = nullptr, *weight = nullptr;
  const std::byte* packed = nullptr;
  weight_format format = weight_format::float32;
  extent_t rows = 0, outputs = 0, inputs = 0;
  bool accumulate = false;
};

/// dweight[o,i] (+)= dy[t,o]^T x[t,i].
struct linear_backward_weight {
  float* dweight = nullptr;
  const float *dy = nullptr, *x = nullptr;
  extent_t rows = 0, outputs = 0, inputs = 0;
  bool accumulate = false;
};

/// total[w] += the sum of the rows of x[t,w] (the gradient of a bias).
struct sum_rows {
  float* total = nullptr;
  const float* x = nullptr;
  extent_t rows = 0, width = 0;
};

/// y = weight (x rstd) with rstd = (mean x^2 + eps)^-1/2.
struct rms_norm_forward {
  norm_arguments norm = {};
  float* y = nullptr;
  extent_t y_row = 0;
  const float* x = nullptr;
  float* rstd = nullptr;
  extent_t rows = 0;
};

/// total = a + b and y = weight (total rstd), all [t,w]; one group. total may be a or b.
struct add_rms_norm_forward {
  norm_arguments norm = {};
  float* total = nullptr;
  const float *a = nullptr, *b = nullptr;
  float *y = nullptr, *rstd = nullptr;
  extent_t rows = 0;
};

/// dx (+)= rstd (weight dy - xn mean(weight dy xn)) with xn = x rstd. dx may be dy.
struct rms_norm_backward {
  norm_arguments norm = {};
  float* dx = nullptr;
  const float* dy = nullptr;
  extent_t dy_row = 0;  ///< of dx as well
  const float *x = nullptr, *rstd = nullptr;
  extent_t rows = 0;
  bool accumulate = false;
};

/// dweight[w] += the sum over rows of dy x rstd.
struct rms_norm_backward_weight {
  norm_arguments norm = {};
  float* dweight = nullptr;
  const float* dy = nullptr;
  extent_t dy_row = 0;
  const float *x = nullptr, *rstd = nullptr;
  extent_t rows = 0;
};

/// Rotates the pairs (j, j + head_dim/2) of every head by the angle of the row's position, or with `inverse` by minus
/// the angle, in place.
struct rope {
  float* x = nullptr;
  extent_t row = 0, heads = 0, head_dim = 0;
  const std::int32_t* positions = nullptr;  ///< [t]
  const float* cosine = nullptr;            ///< [positions, head_dim/2]
  const float* sine = nullptr;              ///< [positions, head_dim/2]
  extent_t rows = 0;
  bool inverse = false;
};

/// Writes keys and values of the segments' rows to their pages; `layer` is the layer's first page.
struct store_keys_values {
  attention_shape shape = {};
  std::span<const attention_segment> segments = {};  ///< host
  float* layer = nullptr;
  const float *keys = nullptr, *values = nullptr;
  extent_t row = 0;  ///< of keys and values
};

/// out = softmax(scale q k^T) v. `statistics` [t, heads, 2] is what the backward needs, in a device-specific form.
struct attention_forward {
  attention_shape shape = {};
  std::span<const attention_segment> segments = {};  ///< host
  const float* q = nullptr;
  extent_t q_row = 0;
  float* out = nullptr;
  extent_t out_row = 0;
  float* statistics = nullptr;
};

/// dq = ..., and dk += ..., dv += ... of every segment.
struct attention_backward {
  attention_shape shape = {};
  std::span<const attention_segment> segments = {};            ///< host
  std::span<const attention_segment_gradient> gradients = {};  ///< host, one for each segment
  const float* q = nullptr;
  extent_t q_row = 0;  ///< of dq as well
  const float *out = nullptr, *dout = nullptr;
  extent_t out_row = 0;  ///< of dout as well
  const float* statistics = nullptr;
  float* dq = nullptr;
};

/// attention_forward over a part of the keys of each segment, see partial_attention.
struct attention_forward_part {
  attention_forward whole = {};
  std::span<const attention_part> parts = {};  ///< host, one for each segment
};

/// attention_backward over a part of the keys of each segment; with `resume` it adds to dq.
struct attention_backward_part {
  attention_backward whole = {};
  std::span<const attention_part> parts = {};  ///< host, one for each segment
};

/// y[t,w] = silu(gate) up of rows [gate | up].
struct swiglu_forward {
  float* y = nullptr;
  const float* gate_up = nullptr;  ///< [t,2w]
  extent_t rows = 0, width = 0;
};

/// The gradient of swiglu_forward. dgate_up may be gate_up.
struct swiglu_backward {
  float* dgate_up = nullptr;  ///< [t,2w]
  const float *dy = nullptr, *gate_up = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[n] = x P(X < x) of a standard normal X.
struct gelu_forward {
  float* y = nullptr;
  const float* x = nullptr;
  extent_t n = 0;
};

/// The gradient of gelu_forward. dx may be dy.
struct gelu_backward {
  float* dx = nullptr;
  const float *dy = nullptr, *x = nullptr;
  extent_t n = 0;
};

/// y[k] = x[ids[k]] (embedding); y is [count,w].
struct gather_rows {
  float* y = nullptr;
  const float* x = nullptr;
  extent_t x_rows = 0;
  const std::int32_t* ids = nullptr;
  extent_t count = 0, width = 0;
};

/// y[k] = row ids[k] of a packed weight, as rounded by its format; not for int8. y is [count,i].
struct gather_packed_rows {
  float* y = nullptr;
  const std::byte* packed = nullptr;
  weight_format format = weight_format::float32;
  const std::int32_t* ids = nullptr;
  extent_t count = 0, inputs = 0;
};

/// y[ids[k]] += x[k], k in order (the gradient of gather_rows); x is [count,w].
struct scatter_add_rows {
  float* y = nullptr;
  const float* x = nullptr;
  row_ids ids = {};
  extent_t count = 0, width = 0;
};

/// y[ids[k]] = x[k], or y[k] without ids, for k < count.
struct copy_rows {
  float* y = nullptr;
  extent_t y_row = 0;
  row_ids ids = {};
  const float* x = nullptr;
  extent_t x_row = 0, count = 0, width = 0;
};

/// y[t,w] = factor[t] x[t,w]. y may be x.
struct scale_rows {
  float* y = nullptr;
  const float *x = nullptr, *factor = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[t] = the sum over w of a[t,w] b[t,w].
struct dot_rows {
  float* y = nullptr;
  const float *a = nullptr, *b = nullptr;
  extent_t rows = 0, width = 0;
};

/// y[n] = a + b. y may be a or b.
struct add {
  float* y = nullptr;
  const float *a = nullptr, *b = nullptr;
  extent_t n = 0;
};

/// y[n] *= factor.
struct scale {
  float* y = nullptr;
  float factor = 1;
  extent_t n = 0;
};

/// y[n] = value.
struct fill {
  float* y = nullptr;
  float value = 0;
  extent_t n = 0;
};

/// With z = logits / temperature: logp = z_target - lse z and H = lse z - sum p z over p > 0, for logits[t,
/// vocabulary].
struct log_prob_forward {
  const float* logits = nullptr;
  extent_t rows = 0, vocabulary = 0;
  const std::int32_t* targets = nullptr;
  float temperature = 1;
  float* logp = nullptr;
  float* entropy = nullptr;     ///< may be null
  float* statistics = nullptr;  ///< [t,2], may be null
};

/// The sums of log_prob_forward from tiles of columns [first, first + w) in order; `first` is a multiple of 1024. The
/// tile at 0 starts the states.
struct log_prob_accumulate {
  log_prob_state* states = nullptr;
  const float* logits = nullptr;  ///< [t,w], the tile
  extent_t rows = 0, width = 0, first = 0;
  const std::int32_t* targets = nullptr;
  float temperature = 1;
};

/// The results of log_prob_forward, with its bits, from the states of all columns.
struct log_prob_finish {
  const log_prob_state* states = nullptr;
  extent_t rows = 0;
  float temperature = 1;
  float* logp = nullptr;
  float* entropy = nullptr;     ///< may be null
  float* statistics = nullptr;  ///< [t,2], may be null
};

/// a = the states of the same rows over the columns of a and b, which are disjoint and counted from 0 in each; a target
/// outside of the columns is in neither.
struct log_prob_merge {
  log_prob_state* a = nullptr;
  const log_prob_state* b = nullptr;
  extent_t rows = 0;
};

/// logits <- (dlogp (1[target] - p) - dH p (log p + H)) / temperature, in a tile of columns [first, first + w).
struct log_prob_backward {
  float* logits = nullptr;  ///< [t,w], the tile
  extent_t rows = 0, width = 0, first = 0;
  const std::int32_t* targets = nullptr;
  float temperature = 1;
  const float *dlogp = nullptr, *dentropy = nullptr, *entropy = nullptr;
  const float* statistics = nullptr;  ///< [t,2]
};

/// tokens[t] by the inverse CDF at uniform[t] in [0, 1): in order of ids if all tokens are kept, else in order of
/// decreasing probability; ties by id.
struct sample {
  sampling_arguments settings = {};
  const float* logits = nullptr;  ///< [t, vocabulary]
  extent_t rows = 0, vocabulary = 0;
  const double* uniform = nullptr;
  std::int32_t* tokens = nullptr;
};

/// The sum of the squares of x[n], in double, over chunks of a fixed size.
struct sum_of_squares {
  using result = double;
  const float* x = nullptr;
  extent_t n = 0;
};

/// sums[b] = the sum of the squares of x[b * block .. (b + 1) * block), in double.
struct block_sums_of_squares {
  const float* x = nullptr;
  extent_t n = 0, block = 0;
  double* sums = nullptr;  ///< host, [n / block rounded up]
};

/// One step of AdamW for n weights.
struct adamw {
  float *weights = nullptr, *m = nullptr, *v = nullptr;
  const float* gradient = nullptr;
  extent_t n = 0;
  adamw_step step = {};
};

}  // namespace op

/// A list of operations.
template <class... Operations>
struct operation_list {};

/// What every device runs: training and generation of a transformer.
using device_operations = operation_list<
    op::pack_weight, op::linear_forward, op::linear_backward_input, op::linear_backward_weight, op::sum_rows,
    op::rms_norm_forward, op::add_rms_norm_forward, op::rms_norm_backward, op::rms_norm_backward_weight, op::rope,
    op::store_keys_values, op::attention_forward, op::attention_backward, op::swiglu_forward, op::swiglu_backward,
    op::gelu_forward, op::gelu_backward, op::gather_rows, op::scatter_add_rows, op::copy_rows, op::scale_rows,
    op::dot_rows, op::add, op::scale, op::fill, op::log_prob_forward, op::log_prob_accumulate, op::log_prob_finish,
    op::log_prob_merge, op::log_prob_backward, op::sample, op::sum_of_squares, op::block_sums_of_squares, op::adamw>;
/// Attention over parts of the keys, for ring attention.
using partial_attention_operations = operation_list<op::attention_forward_part, op::attention_backward_part>;
/// Rows of packed weights.
using packed_row_operations = operation_list<op::gather_packed_rows>;
/// What losses need in addition to gather_rows, copy_rows, scale_rows and add.
using loss_operations = operation_list<op::run_program, op::live_slots, op::row_sums, op::to_indices>;
/// What advantages need in addition.
using advantage_operations =
    operation_list<op::row_largest, op::add_next_slots, op::suffix_sums, op::live_first, op::pick_slots>;

RLCORE_END
