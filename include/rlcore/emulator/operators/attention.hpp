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
#include "rlcore/emulator/numerics/flash_attention_gradient.hpp"
#include "rlcore/emulator/operators/attention_arguments.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// The matrix of one head of [rows, heads, width], from `row` on.
template <class Real>
matrix<Real> head_of(std::span<const Real> values, std::int64_t row, std::int64_t head, std::int64_t heads,
                     std::int64_t width) {
  return {values.data() + (row * heads + head) * width, heads * width, 1};
}
/// The machine's exponential.
struct machine_exp {
  const execution& e;
  /// e^x, see execution::exp().
  template <class Real>
  Real operator()(Real x) const {
    return e.exp(x);
  }
};

/// out [T, N, E] = softmax(scale q k^T) v per sequence and head; softmaxMax and softmaxSum [T, N, 8] hold the
/// rows' maxima and sums eight times each, in float32, and in an order that their shape does not show: sequence after
/// sequence, in each of them head after head, in each of these row after row. softmaxOut is not written. See
/// numerics/flash_attention.hpp for the order.
inline kernel aclnnFlashAttentionVarLenScore(planner& p, input query, input key, input value, input shift,
                                             input drop_mask, input padding_mask, input mask, ints prefix,
                                             ints query_ends, ints key_ends, double scale, double keep_probability,
                                             std::int64_t before, std::int64_t after, std::int64_t heads, text layout,
                                             std::int64_t inner_precise, std::int64_t sparse_mode, output softmax_max,
                                             output softmax_sum, output, output attention_out) {
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
    const auto q = e.read<real>(a.q), k = e.read<real>(a.k), v = e.read<real>(a.v);
    const auto seen = a.load_mask(e);
    const std::int64_t n = a.heads(), shared = n / a.key_heads(), w = a.width(), vw = a.value_width();
    const auto values = static_cast<std::size_t>(a.rows() * n);
    real* y = e.take<real>(values * static_cast<std::size_t>(vw));
    real *m = e.take<real>(8 * values), *l = e.take<real>(8 * values);
    for (std::size_t b = 0; b < a.query_ends.size(); ++b)
      for (std::int64_t h = 0; h < (seen.of_head > 0 ? n : 1); ++h)
        a.check_mask(a.visible(seen, b, h), b, e.machine.strict);
    a.for_each_head(e.machine.threads, n, [&](std::size_t b, std::int64_t h) {
      const std::int64_t row = a.first_row(b), rows = a.query_ends[b] - row, from = a.first_key(b);
      attention_head<real> head;
      head.queries = rows;
      head.width = w;
      head.value_width = vw;
      head.q = head_of(q, row, h, n, w);
      head.k = head_of(k, from, h / shared, a.key_heads(), w);
      head.v = head_of(v, from, h / shared, a.key_heads(), vw);
      head.visible = a.visible(seen, b, h);
      head.scale = static_cast<real>(a.scale);
      head.type = a.q.type;
      head.overflow = e.overflow;
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

/// dq, dk, dv of the same attention; softmaxMax, softmaxSum and attentionIn are the results of the forward pass. Unless
/// the context is deterministic, the blocks of each group of heads arrive in an order drawn from the machine's seed;
/// see numerics/flash_attention_gradient.hpp. softmaxIn is not read, dpse not written.
inline kernel aclnnFlashAttentionUnpaddingScoreGrad(planner& p, input query, input key, input value, input dy,
                                                    input shift, input drop_mask, input padding_mask, input mask,
                                                    input softmax_max, input softmax_sum, input, input attention_in,
                                                    ints prefix, ints query_ends, ints key_ends, double scale,
                                                    double keep_probability, std::int64_t before, std::int64_t after,
                                                    std::int64_t heads, text layout, std::int64_t inner_precise,
                                                    std::int64_t sparse_mode, output dq_out, output dk_out,
                                                    output dv_out, output) {
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
               out = e.read<real>(y), m = e.read<real>(top), l = e.read<real>(total);
    const auto seen = a.load_mask(e);
    const std::int64_t n = a.heads(), groups = a.key_heads(), shared = n / groups, w = a.width(), vw = a.value_width();
    const auto size = [](const tensor& t) { return static_cast<std::size_t>(t.size()); };
    real *to_q = e.take<real>(size(dq)), *to_k = e.take<real>(size(dk)), *to_v = e.take<real>(size(dv));
    const random_key shuffle{in_order ? 0 : e.random()};
    a.for_each_head(e.machine.threads, groups, [&](std::size_t b, std::int64_t group) {
      const std::int64_t row = a.first_row(b), rows = a.query_ends[b] - row, from = a.first_key(b),
                         keys = a.key_ends[b] - from;
      std::vector<attention_gradient_head<real>> group_heads(static_cast<std::size_t>(shared));
      std::vector<real> dqs(static_cast<std::size_t>(shared * rows * w)), dks(static_cast<std::size_t>(keys * w)),
          dvs(static_cast<std::size_t>(keys * vw)), tops(static_cast<std::size_t>(shared * rows)), totals(tops);
      for (std::int64_t s = 0; s < shared; ++s) {
        const std::int64_t h = group * shared + s;
        auto& head = group_heads[static_cast<std::size_t>(s)];
        auto& f = head.forward;
        f.queries = rows;
        f.width = w;
        f.value_width = vw;
        f.q = head_of(q, row, h, n, w);
        f.k = head_of(k, from, group, groups, w);
        f.v = head_of(v, from, group, groups, vw);
        f.visible = a.visible(seen, b, h);
        f.scale = static_cast<real>(a.scale);
        f.type = a.q.type;
        f.overflow = e.overflow;
        head.out = head_of(out, row, h, n, vw);
        head.dout = head_of(dout, row, h, n, vw);
        head.maximum = tops.data() + s * rows;
        head.sum = totals.data() + s * rows;
        head.dq = dqs.data() + s * rows * w;
        for (std::int64_t i = 0; i < rows; ++i) {
          const auto at = static_cast<std::size_t>(8 * (row * n + h * rows + i));
          tops[static_cast<std::size_t>(s * rows + i)] = m[at];
          totals[static_cast<std::size_t>(s * rows + i)] = l[at];
        }
      }
      const auto arrival = [&](std::size_t count) {
        std::vector<std::uint32_t> order(count);
        std::iota(order.begin(), order.end(), 0u);
        if (!in_order)
          for (auto i = static_cast<std::uint32_t>(count); i > 1; --i)
            std::swap(order[i - 1],
                      order[shuffle.below(i, i, static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(group))]);
        return order;
      };
      attention_backward<real>(group_heads, dks.data(), dvs.data(), machine_exp{e}, arrival);
      for (std::int64_t s = 0; s < shared; ++s)
        for (std::int64_t i = 0; i < rows; ++i)
          std::copy_n(dqs.data() + (s * rows + i) * w, w, to_q + ((row + i) * n + group * shared + s) * w);
      for (std::int64_t j = 0; j < keys; ++j) {
        std::copy_n(dks.data() + j * w, w, to_k + ((from + j) * groups + group) * w);
        std::copy_n(dvs.data() + j * vw, vw, to_v + ((from + j) * groups + group) * vw);
      }
    });
    e.store(dq, std::span<const real>(to_q, size(dq)), rounding::nearest_away);
    e.store(dk, std::span<const real>(to_k, size(dk)), rounding::nearest_away);
    e.store(dv, std::span<const real>(to_v, size(dv)), rounding::nearest_away);
  });
}

}  // namespace ascend::emulated::plans
RLCORE_END
