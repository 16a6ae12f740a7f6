// The device concept: memory and kernels. Models, optimizers and rollouts depend only on it.
//
// Laws (docs/devices.md); a device whose batch_invariant() is false keeps only the third, up to rounding:
//  1. The result for one row does not depend on other rows of the call, on their number, or on threads: every sum
//     over a contracted dimension has one order.
//  2. Gradients of weights are summed over rows in order, starting from the value in memory: splitting a call into
//     several calls over consecutive rows changes no bit.
//  3. Attention reads keys and values from its segments: rows of activations in training, pages of the KV cache in
//     rollout; the order over keys is the same.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rlcore/core/abi.hpp"
#include "rlcore/device/row_ids.hpp"
#include "rlcore/tensor/buffer.hpp"
#include "rlcore/tensor/view.hpp"

RLCORE_BEGIN

/// Rows of a norm: row (t, g) is x + t * row + g * width, for g < groups. Statistic (t, g) is rstd[t * groups + g].
struct norm_arguments {
  extent_t row = 0, groups = 1, width = 0;
  const float* weight = nullptr;  ///< [width]
  double eps = 1e-6;
};

/// Heads of grouped-query attention: `heads` query heads share `kv_heads` key heads, `scale` multiplies q . k. Without
/// `causal` every row of a segment attends to all of the segment's keys (the patches of an image).
struct attention_shape {
  extent_t heads = 1, kv_heads = 1, head_dim = 0;
  float scale = 1;
  bool causal = true;
};

/// Positions per page of the KV cache.
inline constexpr extent_t kv_page = 32;
/// Pages that hold n positions.
constexpr extent_t kv_pages(extent_t n) { return (n + kv_page - 1) / kv_page; }
/// Floats of a page of one layer: keys and values of kv_page positions, in a device-specific order.
constexpr extent_t kv_page_size(const attention_shape& s) { return 2 * kv_page * s.kv_heads * s.head_dim; }

/// Consecutive query rows of one sequence. Row first_row + i stands at position first_position + i and attends to the
/// keys of positions 0 .. first_position + i, or, if not causal, 0 .. first_position + rows - 1. They lie in rows (key
/// head h of position p is keys + p * key_row + h * head_dim, values likewise) or, if `pages` is not null, in a cache:
/// `keys` is the layer's first page, and page pages[n], below layer_pages, holds the positions kv_page * n and
/// following; `values` and `key_row` are then ignored.
struct attention_segment {
  const float* keys = nullptr;
  const float* values = nullptr;
  extent_t key_row = 0, first_row = 0, rows = 0, first_position = 0;
  const std::int32_t* pages = nullptr;
  extent_t layer_pages = 0;  ///< pages per layer in the cache
};

/// The memory that accumulates the gradients of one segment's keys and values, in the layout of the keys and values.
struct attention_segment_gradient {
  float* keys = nullptr;
  float* values = nullptr;
};

/// The format of a device's packed weights. Training uses the format of the device's compute type; int8 (one scale per
/// output) is for generation only.
enum class weight_format : unsigned char { float32, bfloat16, int8 };

/// The state of a row's softmax(logits / temperature) after some of its columns: the sums in a device-specific form,
/// relative to the largest logit so far, and the target's logit once its column has been processed.
struct log_prob_state {
  double total = 0, weighted = 0;
  float top = 0, target = 0;
};

/// One AdamW step as torch.optim.AdamW computes it (decoupled decay, Loshchilov & Hutter 2019): with g' =
/// gradient_scale g, w *= 1 - lr decay; m += (1 - beta1)(g' - m); v = beta2 v + (1 - beta2) g'^2; w -= lr / (1 -
/// beta1^step) m / (sqrt(v) / sqrt(1 - beta2^step) + eps). step counts from 1.
struct adamw_step {
  double lr = 1e-6, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;
  float gradient_scale = 1;
};

/// The settings of sampling. A token is drawn from softmax(logits / temperature), without tokens less likely than min_p
/// times the most likely one, cut to the top_k most likely (<= 0: all), then to the smallest set of these whose
/// probability reaches top_p, renormalised. Temperature 0 takes the most likely token.
struct sampling_arguments {
  float temperature = 1;
  extent_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
};

/// A device's memory functions. `upload` reads and `download` writes host memory; both return when the host memory may
/// be reused.
template <class D>
concept device_memory = memory_device<D> && requires(D& d) {
  { d.name() } -> std::convertible_to<std::string_view>;
};

/// Full description of a device, for report headers: its description() if it has one, else its name.
template <class D>
std::string describe(const D& d) {
  if constexpr (requires { d.description(); }) {
    return d.description();
  } else {
    return std::string(std::string_view(d.name()));
  }
}

/// A device with the kernels of a transformer's training and generation; all pointers are device memory, matrices
/// row-major and contiguous unless a row stride is given; t = rows, o = outputs, i = inputs, w = width. y/x/dy/dx:
/// values, gradients.
template <class D>
concept device = device_memory<D> &&
    requires(D& d, float* y, const float* x, const std::int32_t* ids, row_ids to, extent_t n, bool flag, float f,
             double& total, const norm_arguments& norm, const attention_shape& heads,
             std::span<const attention_segment> segments, std::span<const attention_segment_gradient> gradients,
             const adamw_step& step, weight_format format, std::byte* bytes, const std::byte* packed,
             log_prob_state* states, const sampling_arguments& arguments, const double* uniform, std::int32_t* tokens) {
  // whether laws 1 and 2 hold to the bit
  { d.batch_invariant() } -> std::same_as<bool>;
  // the weight format of training; bytes of a packed weight [o,i]; packed, format, weight, o, i
  { d.compute_format() } -> std::same_as<weight_format>;
  { d.packed_bytes(format, n, n) } -> std::same_as<std::size_t>;
  d.pack_weight(bytes, format, x, n, n);
  // y[t,o] = x[t,i] weight[o,i]^T + bias[o]: y, x, packed weight, format, bias (may be null), t, o, i
  d.linear_forward(y, x, packed, format, x, n, n, n);
  // dx[t,i] (+)= dy[t,o] weight: dx, dy, weight, t, o, i, accumulate
  d.linear_backward_input(y, x, x, n, n, n, flag);
  // dweight[o,i] (+)= dy^T x: dweight, dy, x, t, o, i, accumulate
  d.linear_backward_weight(y, x, x, n, n, n, flag);
  // total[w] += x[0], x[1], ... (a bias's gradient): total, x, t, w
  d.sum_rows(y, x, n, n);
  // y = weight (x rstd), rstd = (mean x^2 + eps)^-1/2: y, row of y, x, rstd, t
  d.rms_norm_forward(norm, y, n, x, y, n);
  // total = a + b, y = weight (total rstd); all [t, width], groups 1, total may be a or b: total, a, b, y, rstd, t
  d.add_rms_norm_forward(norm, y, x, x, y, y, n);
  // dx (+)= rstd (weight dy - xn mean(weight dy xn)), xn = x rstd; dx may be dy: dx, dy, row of both, x, rstd, t,
  // accumulate
  d.rms_norm_backward(norm, y, x, n, x, x, n, flag);
  // dweight += dy xn: dweight, dy, row of dy, x, rstd, t
  d.rms_norm_backward_weight(norm, y, x, n, x, x, n);
  // pairs (j, j + w/2) turned by +-angle in place: x, row, heads, w, positions, cosine[p,w/2], sine[p,w/2], t, inverse
  d.rope(y, n, n, n, ids, x, x, n, flag);
  // writes keys and values of the segments' rows to their pages: the layer's first page, keys, values, row of both
  d.store_keys_values(heads, segments, y, x, x, n);
  // out = softmax(scale q k^T) v: q, row of q, out, row of out, statistics[t,heads,2]
  d.attention_forward(heads, segments, x, n, y, n, y);
  // dq, and the segments' dk, dv +=: q, row of q, out, dout, row of both, statistics, dq (row of q)
  d.attention_backward(heads, segments, gradients, x, n, x, x, n, x, y);
  // y[t,w] = silu(gate) up of rows [gate | up]: y, gate_up, t, w
  d.swiglu_forward(y, x, n, n);
  // dgate_up (may be gate_up), dy, gate_up, t, w
  d.swiglu_backward(y, x, x, n, n);
  // y = x P(X < x) of a standard normal X, elements: y, x, n
  d.gelu_forward(y, x, n);
  // dx (may be dy), dy, x, n
  d.gelu_backward(y, x, x, n);
  // y[k] = x[ids[k]] (embedding): y, x, rows of x, ids, count, w
  d.gather_rows(y, x, n, ids, n, n);
  // y[ids[k]] += x[k], k in order (its gradient): y, x, row_ids of y, count, w
  d.scatter_add_rows(y, x, to, n, n);
  // y[ids[k]] = x[k], or y[k] without ids: y, row of y, row_ids of y, x, row of x, count, w
  d.copy_rows(y, n, to, x, n, n, n);
  // y[t,w] = factor[t] x[t,w], y may be x: y, x, factor, t, w
  d.scale_rows(y, x, x, n, n);
  // y[t] = sum over w of a[t,w] b[t,w]: y, a, b, t, w
  d.dot_rows(y, x, x, n, n);
  // y = a + b; y *= factor; y = value: the last argument is the number of elements
  d.add(y, x, x, n);
  d.scale(y, f, n);
  d.fill(y, f, n);
  // z = logits / temperature; logp = z_target - lse z; H = lse z - sum p z over p > 0: logits[t,v], t, v, targets,
  // temperature, logp, entropy (may be null), statistics[t,2] (may be null)
  d.log_prob_forward(x, n, n, ids, f, y, y, y);
  // the same bits from tiles of columns in order, each starting at a multiple of 1024; the first starts the states:
  // states, logits[t,w], t, w, first column, targets, temperature; then states, t, temperature, results as above
  d.log_prob_accumulate(states, x, n, n, n, ids, f);
  d.log_prob_finish(states, n, f, y, y, y);
  // merges states of the same rows over disjoint columns, each counted from 0; targets outside of 0 .. columns are in
  // neither: a = merged: a, b, t
  d.log_prob_merge(states, states, n);
  // a tile of logits <- (dlogp (1[target] - p) - dH p (log p + H)) / temperature: logits[t,w], t, w, first column,
  // targets, temperature, dlogp, dH, H, statistics
  d.log_prob_backward(y, n, n, n, ids, f, x, x, x, x);
  // tokens[t] by the inverse CDF at uniform[t] in [0, 1): in order of ids if all tokens are kept, else in order of
  // decreasing probability; ties by id: arguments, logits[t,v], t, v, uniform, tokens
  d.sample(arguments, x, n, n, uniform, tokens);
  // in double, over fixed chunks: x, n
  total = d.sum_of_squares(x, n);
  // w, m, v, g, n, step
  d.adamw(y, y, y, x, n, step);
};

RLCORE_END
