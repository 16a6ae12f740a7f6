// Attention composed of matrix products and softmax, for a CANN without the fused operators.
#pragma once

#include <cstdint>
#include <span>

#include "rlcore/device/npu/kernels/attention_run.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// One segment at a time, with the whole weight matrix in memory and float products for every compute type. The forward
/// writes no statistics: the backward recomputes the weights.
class composed_attention {
 public:
  /// out = softmax(scale q k^T) v of the rows of one run.
  static void forward(context& c, page_rows& pages, const attention_shape& s, const attention_run& run, const float* q,
                      extent_t q_row, float* out, extent_t out_row);

  /// Overwrites dq and adds to the gradients of keys and values, of the rows of one run.
  static void backward(context& c, page_rows& pages, const attention_shape& s, const attention_run& run,
                       std::span<const attention_segment_gradient> gradients, const float* q, extent_t q_row,
                       const float* dout, extent_t out_row, float* dq);

 private:
  /// One segment: t queries, n keys; keys and values repeated for every query head, [heads, n, head_dim].
  struct segment {
    const context& c;
    extent_t heads, d, t, n, first_row, first_position;
    scratch<float> keys, values;

    tensor_argument rows_of_heads(const float* x, extent_t row) const {
      return c.view(x + first_row * row, {heads, t, d}, {d, row, 1});
    }
    tensor_argument keys_of_heads(const float* x) const { return c.view(x, {heads, n, d}); }
    tensor_argument transposed(const float* x) const { return c.view(x, {heads, d, n}, {n * d, 1, d}); }
    tensor_argument square(const float* x) const { return c.view(x, {heads, t, n}); }
    tensor_argument square_transposed(const float* x) const { return c.view(x, {heads, n, t}, {t * n, 1, n}); }
  };

  static void multiply(context& c, tensor_ref a, tensor_ref b, tensor_ref to) {
    c.run(c.op().aclnnBatchMatMul, a, b, to, c.cube());
  }

  /// to [heads, t, head_dim], rows with gaps, from left [heads, t, n] and right [heads, n, head_dim].
  static void multiply_into_rows(context& c, const segment& g, tensor_ref left, const float* right, tensor_ref to);

  template <class F>
  static void for_segments(context& c, page_rows& pages, const attention_shape& s, const attention_run& run, F&& f) {
    const extent_t d = s.head_dim, group = s.heads / s.kv_heads, w = s.kv_heads * d;
    const auto read = gather_keys_values<float>(c, pages, s, run);
    extent_t before = 0;
    for (std::size_t i = 0; i < run.segments.size(); ++i) {
      const attention_segment& from = run.segments[i];
      const extent_t n = keys_of(from);
      segment g{c,
                s.heads,
                d,
                from.rows,
                n,
                from.first_row,
                from.first_position,
                c.take<float>(s.heads * n * d),
                c.take<float>(s.heads * n * d)};
      const auto repeat = [&](const float* x, float* to) {
        c.copy(c.view(to, {s.kv_heads, group, n, d}), c.view(x, {s.kv_heads, 1, n, d}, {d, d, w, 1}));
      };
      repeat(read.data() + before * w, g.keys.data());
      repeat(read.data() + (run.keys + before) * w, g.values.data());
      f(i, g);
      before += n;
    }
  }

  /// The weights [heads, t, n].
  static scratch<float> softmax(context& c, const attention_shape& s, const segment& g, const float* q, extent_t q_row);

  /// to [n, kv_heads, head_dim] += the sum over the heads of a group of left [heads, n, t] right [heads, t, head_dim].
  static void add_of_heads(context& c, const attention_shape& s, const segment& g, tensor_ref left, tensor_ref right,
                           float* to, extent_t row);
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void composed_attention::forward(context& c, page_rows& pages, const attention_shape& s,
                                               const attention_run& run, const float* q, extent_t q_row, float* out,
                                               extent_t out_row) {
  for_segments(c, pages, s, run, [&](std::size_t, const segment& g) {
    const auto weights = softmax(c, s, g, q, q_row);
    multiply_into_rows(c, g, g.square(weights.data()), g.values.data(), g.rows_of_heads(out, out_row));
  });
}

RLCORE_INLINE void composed_attention::backward(context& c, page_rows& pages, const attention_shape& s,
                                                const attention_run& run,
                                                std::span<const attention_segment_gradient> gradients, const float* q,
                                                extent_t q_row, const float* dout, extent_t out_row, float* dq) {
  for_segments(c, pages, s, run, [&](std::size_t i, const segment& g) {
    const auto weights = softmax(c, s, g, q, q_row);
    const auto p = g.square(weights.data()), slopes = g.rows_of_heads(dout, out_row);
    const auto dweights = c.take<float>(s.heads * g.t * g.n), dscores = c.take<float>(s.heads * g.t * g.n);
    multiply(c, slopes, g.transposed(g.values.data()), g.square(dweights.data()));
    const auto ds = g.square(dscores.data());
    c.run(c.op().aclnnSoftmaxBackward, g.square(dweights.data()), p, std::int64_t{-1}, ds);
    c.mul(ds, s.scale, ds);
    multiply_into_rows(c, g, ds, g.keys.data(), g.rows_of_heads(dq, q_row));
    const extent_t row = run.segments[i].key_row;
    add_of_heads(c, s, g, g.square_transposed(dscores.data()), g.rows_of_heads(q, q_row), gradients[i].keys, row);
    add_of_heads(c, s, g, g.square_transposed(weights.data()), slopes, gradients[i].values, row);
  });
}

RLCORE_INLINE void composed_attention::multiply_into_rows(context& c, const segment& g, tensor_ref left,
                                                          const float* right, tensor_ref to) {
  const auto product = c.take<float>(g.heads * g.t * g.d);
  const auto result = c.view(product.data(), {g.heads, g.t, g.d});
  multiply(c, left, g.keys_of_heads(right), result);
  c.copy(to, result);
}

RLCORE_INLINE scratch<float> composed_attention::softmax(context& c, const attention_shape& s, const segment& g,
                                                         const float* q, extent_t q_row) {
  scratch<float> weights = c.take<float>(s.heads * g.t * g.n);
  const auto scores = c.take<float>(s.heads * g.t * g.n);
  const auto z = g.square(scores.data());
  multiply(c, g.rows_of_heads(q, q_row), g.transposed(g.keys.data()), z);
  c.mul(z, s.scale, z);
  if (s.causal && g.t > 1) {  // masks key j > first_position + i for query i
    const auto room = c.take<float>(2 * g.t * g.n);
    const auto low = c.rows(room.data(), g.t, g.n), masked = c.rows(room.data() + g.t * g.n, g.t, g.n);
    c.fill(low, -1e30f);
    c.run(c.op().aclnnTriu, low, std::int64_t{g.first_position + 1}, masked);
    c.add(z, masked, z);
  }
  c.run(c.op().aclnnSoftmax, z, std::int64_t{-1}, g.square(weights.data()));
  return weights;
}

RLCORE_INLINE void composed_attention::add_of_heads(context& c, const attention_shape& s, const segment& g,
                                                    tensor_ref left, tensor_ref right, float* to, extent_t row) {
  const extent_t group = s.heads / s.kv_heads;
  const auto product = c.take<float>(s.heads * g.n * g.d), sums = c.take<float>(s.kv_heads * g.n * g.d);
  multiply(c, left, right, g.keys_of_heads(product.data()));
  const auto total = c.view(sums.data(), {s.kv_heads, g.n, g.d});
  c.sum(c.view(product.data(), {s.kv_heads, group, g.n, g.d}), 1, false, total);
  const auto gradient = c.view(to, {s.kv_heads, g.n, g.d}, {g.d, row, 1});
  c.add(gradient, total, gradient);
}

}  // namespace ascend::kernels
RLCORE_END
#endif
