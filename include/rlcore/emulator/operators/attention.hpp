// Flash attention over packed sequences, forward and backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/random.hpp"
#include "rlcore/emulator/numerics/flash_attention.hpp"
#include "rlcore/emulator/operators/attention_arguments.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// The matrix of one head of [rows, heads, width], from `row` on.
template <class Real>
matrix<Real> head_of(std::span<const Real> values, std::int64_t row, std::int64_t head, std::int64_t heads,
                     std::int64_t width) {
  return {values.data() + (row * heads + head) * width, heads * width, 1};
}
/// Exponential function of the emulated machine.
struct machine_exp {
  const execution& e;
  /// e^x, see execution::exp().
  template <class Real>
  Real operator()(Real x) const {
    return e.exp(x);
  }
};

/// q, k and v of packed attention and the keys that their heads see.
template <class Real>
struct attention_values {
  std::span<const Real> q, k, v;
  packed_attention::mask_values mask;

  /// Query head `h` of sequence `b` with the key head that it shares.
  attention_head<Real> head(const packed_attention& a, std::size_t b, std::int64_t h, overflow_mode overflow) const {
    const std::int64_t row = a.first_row(b), from = a.first_key(b), key_head = h / (a.heads() / a.key_heads());
    attention_head<Real> head;
    head.queries = a.query_ends[b] - row;
    head.width = a.width();
    head.value_width = a.value_width();
    head.q = head_of(q, row, h, a.heads(), a.width());
    head.k = head_of(k, from, key_head, a.key_heads(), a.width());
    head.v = head_of(v, from, key_head, a.key_heads(), a.value_width());
    head.visible = a.visible(mask, b, h);
    head.scale = static_cast<Real>(a.scale);
    head.type = a.q.type;
    head.overflow = overflow;
    return head;
  }
};

/// out [T, N, E] = softmax(scale q k^T) v per sequence and head; softmaxMax and softmaxSum [T, N, 8] hold the rows'
/// maxima and sums eight times each, in float32. Their memory order differs from their shape: by sequence, then by
/// head, then by row. softmaxOut is not written. See numerics/flash_attention.hpp for the order.
kernel aclnnFlashAttentionVarLenScore(planner& p, input query, input key, input value, input shift, input drop_mask,
                                      input padding_mask, input mask, ints prefix, ints query_ends, ints key_ends,
                                      double scale, double keep_probability, std::int64_t before, std::int64_t after,
                                      std::int64_t heads, text layout, std::int64_t inner_precise,
                                      std::int64_t sparse_mode, output softmax_max, output softmax_sum, output,
                                      output attention_out);

/// Inputs of the backward pass: those of the forward pass, its results, and the gradient of its output.
template <class Real>
struct attention_gradient_values {
  attention_values<Real> forward;
  std::span<const Real> out, dout, maxima, sums;
};

/// The query heads of sequence `b` that share key head `group`, and fp32 sums of their gradients.
template <class Real>
class attention_gradient_group {
 public:
  /// Heads of `in`; their sums and maxima are copied, one of the eight that are stored.
  attention_gradient_group(const packed_attention& a, const attention_gradient_values<Real>& in, std::size_t b,
                           std::int64_t group, overflow_mode overflow)
      : a_(a),
        row_(a.first_row(b)),
        rows_(a.query_ends[b] - row_),
        from_(a.first_key(b)),
        keys_(a.key_ends[b] - from_),
        group_(group),
        shared_(a.heads() / a.key_heads()),
        heads_(size(shared_)),
        dq_(size(shared_ * rows_ * a.width())),
        dk_(size(keys_ * a.width())),
        dv_(size(keys_ * a.value_width())),
        tops_(size(shared_ * rows_)),
        totals_(tops_) {
    for (std::int64_t s = 0; s < shared_; ++s) {
      const std::int64_t h = group * shared_ + s;
      auto& head = heads_[size(s)];
      head.forward = in.forward.head(a, b, h, overflow);
      head.out = head_of(in.out, row_, h, a.heads(), a.value_width());
      head.dout = head_of(in.dout, row_, h, a.heads(), a.value_width());
      head.maximum = tops_.data() + s * rows_;
      head.sum = totals_.data() + s * rows_;
      head.dq = dq_.data() + s * rows_ * a.width();
      for (std::int64_t i = 0; i < rows_; ++i) {
        const auto at = size(8 * (row_ * a.heads() + h * rows_ + i));
        tops_[size(s * rows_ + i)] = in.maxima[at];
        totals_[size(s * rows_ + i)] = in.sums[at];
      }
    }
  }

  /// Computes the gradients; see attention_backward() for `arrival`.
  template <class Arrival>
  void run(const machine_exp& exp, const Arrival& arrival) {
    attention_backward<Real>(heads_, dk_.data(), dv_.data(), exp, arrival);
  }
  /// Writes the gradients to their positions in dq, dk and dv.
  void store(Real* dq, Real* dk, Real* dv) const {
    const std::int64_t w = a_.width(), vw = a_.value_width(), n = a_.heads(), groups = a_.key_heads();
    for (std::int64_t s = 0; s < shared_; ++s)
      for (std::int64_t i = 0; i < rows_; ++i)
        std::copy_n(dq_.data() + (s * rows_ + i) * w, w, dq + ((row_ + i) * n + group_ * shared_ + s) * w);
    for (std::int64_t j = 0; j < keys_; ++j) {
      std::copy_n(dk_.data() + j * w, w, dk + ((from_ + j) * groups + group_) * w);
      std::copy_n(dv_.data() + j * vw, vw, dv + ((from_ + j) * groups + group_) * vw);
    }
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

  const packed_attention& a_;
  std::int64_t row_, rows_, from_, keys_, group_, shared_;
  std::vector<attention_gradient_head<Real>> heads_;
  std::vector<Real> dq_, dk_, dv_, tops_, totals_;
};

/// 0..count-1 in a random order that depends only on the key, sequence and head.
std::vector<std::uint32_t> shuffled_blocks(std::size_t count, const random_key& key, std::uint32_t sequence,
                                           std::uint32_t head);

/// dq, dk, dv of the same attention; softmaxMax, softmaxSum and attentionIn are the results of the forward pass. Unless
/// the context is deterministic, the blocks of each group of heads arrive in a random order drawn from the machine's
/// seed; see numerics/flash_attention.hpp. softmaxIn is not read, dpse not written.
kernel aclnnFlashAttentionUnpaddingScoreGrad(planner& p, input query, input key, input value, input dy, input shift,
                                             input drop_mask, input padding_mask, input mask, input softmax_max,
                                             input softmax_sum, input, input attention_in, ints prefix, ints query_ends,
                                             ints key_ends, double scale, double keep_probability, std::int64_t before,
                                             std::int64_t after, std::int64_t heads, text layout,
                                             std::int64_t inner_precise, std::int64_t sparse_mode, output dq_out,
                                             output dk_out, output dv_out, output);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE kernel aclnnFlashAttentionVarLenScore(planner& p, input query, input key, input value, input shift,
                                                    input drop_mask, input padding_mask, input mask, ints prefix,
                                                    ints query_ends, ints key_ends, double scale,
                                                    double keep_probability, std::int64_t before, std::int64_t after,
                                                    std::int64_t heads, text layout, std::int64_t inner_precise,
                                                    std::int64_t sparse_mode, output softmax_max, output softmax_sum,
                                                    output, output attention_out) {
  const auto a = packed_attention::plan(p, query, key, value,
                                        {shift, drop_mask, padding_mask, mask, prefix, query_ends, key_ends, scale,
                                         keep_probability, before, after, heads, layout, inner_precise, sparse_mode});
  const tensor top = p.out(softmax_max, {data_type::float32}), total = p.out(softmax_sum, {data_type::float32});
  const tensor out = p.out(attention_out, {a.q.type});
  p.require_shape(top, {a.rows(), a.heads(), 8}, "softmaxMax");
  p.require_shape(total, {a.rows(), a.heads(), 8}, "softmaxSum");
  p.require_shape(out, {a.rows(), a.heads(), a.value_width()}, "attentionOut");
  p.workspace = static_cast<std::uint64_t>(a.rows() * a.heads() * a.value_width()) * 4;
  return in_working_precision(p.machine, [=](execution& e, auto kind) {
    using real = decltype(kind);
    const attention_values<real> in{e.read<real>(a.q), e.read<real>(a.k), e.read<real>(a.v), a.load_mask(e)};
    const std::int64_t n = a.heads(), vw = a.value_width();
    const auto values = static_cast<std::size_t>(a.rows() * n);
    real* y = e.take<real>(values * static_cast<std::size_t>(vw));
    real *m = e.take<real>(8 * values), *l = e.take<real>(8 * values);
    for (std::size_t b = 0; b < a.query_ends.size(); ++b)
      for (std::int64_t h = 0; h < (in.mask.of_head > 0 ? n : 1); ++h)
        a.check_mask(a.visible(in.mask, b, h), b, e.machine.strict);
    a.for_each_head(e.machine.threads, n, [&](std::size_t b, std::int64_t h) {
      const attention_head<real> head = in.head(a, b, h, e.overflow);
      const std::int64_t row = a.first_row(b), rows = head.queries;
      std::vector<real> result(static_cast<std::size_t>(rows * vw)), tops(static_cast<std::size_t>(rows)), totals(tops);
      attention_forward(head, result.data(), tops.data(), totals.data(), machine_exp{e});
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t to = (row + i) * n + h;
        std::copy_n(result.data() + i * vw, vw, y + to * vw);
        const std::int64_t statistic = 8 * (row * n + h * rows + i);
        std::fill_n(m + statistic, 8, tops[static_cast<std::size_t>(i)]);
        std::fill_n(l + statistic, 8, totals[static_cast<std::size_t>(i)]);
      }
    });
    e.store(out, std::span<const real>(y, values * static_cast<std::size_t>(vw)), rounding::nearest_away);
    e.store(top, std::span<const real>(m, 8 * values));
    e.store(total, std::span<const real>(l, 8 * values));
  });
}

RLCORE_INLINE std::vector<std::uint32_t> shuffled_blocks(std::size_t count, const random_key& key,
                                                         std::uint32_t sequence, std::uint32_t head) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  for (auto i = static_cast<std::uint32_t>(count); i > 1; --i)
    std::swap(order[i - 1], order[key.below(i, i, sequence, head)]);
  return order;
}

RLCORE_INLINE kernel aclnnFlashAttentionUnpaddingScoreGrad(
    planner& p, input query, input key, input value, input dy, input shift, input drop_mask, input padding_mask,
    input mask, input softmax_max, input softmax_sum, input, input attention_in, ints prefix, ints query_ends,
    ints key_ends, double scale, double keep_probability, std::int64_t before, std::int64_t after, std::int64_t heads,
    text layout, std::int64_t inner_precise, std::int64_t sparse_mode, output dq_out, output dk_out, output dv_out,
    output) {
  const auto a = packed_attention::plan(p, query, key, value,
                                        {shift, drop_mask, padding_mask, mask, prefix, query_ends, key_ends, scale,
                                         keep_probability, before, after, heads, layout, inner_precise, sparse_mode});
  const tensor g = p.in(dy, {a.q.type}), top = p.in(softmax_max, {data_type::float32}),
               total = p.in(softmax_sum, {data_type::float32}), y = p.in(attention_in, {a.q.type});
  const tensor dq = p.out(dq_out, {a.q.type}), dk = p.out(dk_out, {a.q.type}), dv = p.out(dv_out, {a.q.type});
  const extents like_out{a.rows(), a.heads(), a.value_width()}, statistics{a.rows(), a.heads(), 8};
  p.require_shape(g, like_out, "dy");
  p.require_shape(y, like_out, "attentionIn");
  p.require_shape(top, statistics, "softmaxMax");
  p.require_shape(total, statistics, "softmaxSum");
  p.require_shape(dq, a.q.shape, "dq");
  p.require_shape(dk, a.k.shape, "dk");
  p.require_shape(dv, a.v.shape, "dv");
  p.workspace = static_cast<std::uint64_t>(a.q.size() + a.k.size() + a.v.size()) * 4;
  const bool in_order = p.deterministic;
  return in_working_precision(p.machine, [=](execution& e, auto kind) {
    using real = decltype(kind);
    const auto q = e.read<real>(a.q), k = e.read<real>(a.k), v = e.read<real>(a.v), dout = e.read<real>(g),
               out = e.read<real>(y), maxima = e.read<real>(top), sums = e.read<real>(total);
    const attention_gradient_values<real> in{{q, k, v, a.load_mask(e)}, out, dout, maxima, sums};
    const auto size = [](const tensor& t) { return static_cast<std::size_t>(t.size()); };
    real *to_q = e.take<real>(size(dq)), *to_k = e.take<real>(size(dk)), *to_v = e.take<real>(size(dv));
    const random_key shuffle{in_order ? 0 : e.random()};
    a.for_each_head(e.machine.threads, a.key_heads(), [&](std::size_t b, std::int64_t group) {
      attention_gradient_group<real> gradients(a, in, b, group, e.overflow);
      gradients.run(machine_exp{e}, [&](std::size_t count) {
        if (!in_order)
          return shuffled_blocks(count, shuffle, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(group));
        std::vector<std::uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0u);
        return order;
      });
      gradients.store(to_q, to_k, to_v);
    });
    e.store(dq, std::span<const real>(to_q, size(dq)), rounding::nearest_away);
    e.store(dk, std::span<const real>(to_k, size(dk)), rounding::nearest_away);
    e.store(dv, std::span<const real>(to_v, size(dv)), rounding::nearest_away);
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
