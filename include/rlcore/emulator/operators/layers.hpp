// Operators of layers: normalisation, SwiGLU, embedding gradients, rotary embedding.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "rlcore/emulator/numerics/rounding.hpp"
#include "rlcore/emulator/operators/elementwise.hpp"
#include "rlcore/emulator/operators/movement.hpp"
#include "rlcore/emulator/plan.hpp"

RLCORE_BEGIN
namespace ascend::emulated::plans {

/// x with its last dimensions, those of gamma, as rows.
struct normed {
  tensor x, gamma, rstd;
  std::int64_t rows = 1, width = 1;
};
/// The types that norms allow: all the same, or gamma in float32 with x in 16 bit.
inline void check_norm_types(planner& p, const tensor& x, const tensor& gamma) {
  p.require(gamma.type == x.type || gamma.type == data_type::float32, "the types of x and gamma do not go together");
}
/// Checks that gamma has the last extents of x, and computes the number of rows and their width.
normed normed_rows(planner& p, tensor x, tensor gamma, tensor rstd);
/// rstd is written as one float per row, for any shape: if the tensor is too small, the kernel writes past its end
/// before the error is detected.
tensor row_statistics(const normed& n, const char* name);
/// 1 / sqrt(mean(x^2) + eps); `room` holds a row. The squares are scaled by 1 / width before or after they are summed.
template <class Real>
Real inverse_root_mean_square(const Real* x, Real* room, std::size_t width, double eps, bool scaled_before) {
  const Real share = Real{1} / static_cast<Real>(width);
  for (std::size_t i = 0; i < width; ++i) room[i] = x[i] * x[i];
  if (scaled_before)
    for (std::size_t i = 0; i < width; ++i) room[i] *= share;
  const Real sum = folded_sum(room, width);
  return Real{1} / std::sqrt((scaled_before ? sum : sum * share) + static_cast<Real>(eps));
}

/// y = x rstd gamma with one rounding (PyTorch models round x rstd first), rstd = 1 / sqrt(mean(x^2) + eps).
kernel aclnnRmsNorm(planner& p, input self, input weight, double eps, output y_out, output rstd_out);
/// x = x1 + x2, rstd = 1 / sqrt(mean(x^2) + eps), y = gamma (x rstd). Here x rstd is rounded to the type of x before
/// gamma multiplies it. With float16 the norm is over the rounded sum, with bfloat16 over the sum before rounding, as
/// in the add_rms_norm kernels of CANN 8.1.
kernel aclnnAddRmsNorm(planner& p, input first, input second, input weight, double eps, output y_out, output rstd_out,
                       output sum_out);
/// dx = rstd (g - xn mean(g xn)), g = dy gamma, xn = x rstd; dgamma = sum over rows of dy xn, always float32: each core
/// sums its rows, the cores' sums are added in order of arrival unless deterministic.
kernel aclnnRmsNormGrad(planner& p, input gradient, input self, input rstd_in, input weight, output dx_out,
                        output dgamma_out);

/// Both halves of [gate | up] along a dimension.
struct gated {
  tensor gate, up;
  data_type type;
};
/// The halves of x along a dimension, whose extent has to be even.
gated halves(planner& p, const tensor& x, std::int64_t dim);
/// gate / (1 + e^-gate) up, one rounding.
kernel aclnnSwiGlu(planner& p, input self, std::int64_t dim, output out);
/// d gate = dy up s (1 + gate (1 - s)), d up = dy gate s, s = sigmoid(gate), side by side as in x. Halves whose rows
/// are not a multiple of 64 bytes have no tiling: 561002.
kernel aclnnSwiGluGrad(planner& p, input gradient, input self, std::int64_t dim, output out);

/// Which input element is paired with element i of a head of `width`, and with which sign.
struct rotary_pair {
  std::size_t other = 0;
  bool negative = false;
};
/// Mode 0 pairs halves, (-x2, x1); mode 1 neighbours, (-x1, x0, -x3, x2, ...).
inline rotary_pair rotated(std::int64_t mode, std::size_t i, std::size_t width) {
  if (mode == 1) return i % 2 == 0 ? rotary_pair{i + 1, true} : rotary_pair{i - 1, false};
  const std::size_t half = width / 2;
  return i < half ? rotary_pair{i + half, true} : rotary_pair{i - half, false};
}

/// out = x cos + rotate(x) sin, one rounding. cos and sin repeat along dimensions of extent 1: x [B, N, S, D] with
/// [1 or B, 1, S, D], [B, S, N, D] with [1 or B, S, 1, D], [S, B, N, D] with [S, 1 or B, 1, D], [T, N, D] with
/// [T, 1, D]. Refused as documented: D odd, or 896 and more; B or N of 1000 and more in mode 0; modes 2 and 3, which A2
/// and A3 run as mode 0 (161002). Refused by the tiling: [B, N, S, D] with B N > 8 S where D / 2 is a multiple of
/// 32 bytes and neither B nor S is 1 (561002).
kernel aclnnRotaryPositionEmbedding(planner& p, input self, input cosine, input sine, std::int64_t mode, output out);

}  // namespace ascend::emulated::plans
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_EMULATOR)
RLCORE_BEGIN
namespace ascend::emulated::plans {

RLCORE_INLINE normed normed_rows(planner& p, tensor x, tensor gamma, tensor rstd) {
  check_norm_types(p, x, gamma);
  const std::int64_t kept = x.rank() - gamma.rank();
  p.require(
      gamma.rank() >= 1 && kept >= 0 && std::equal(gamma.shape.begin(), gamma.shape.end(), x.shape.begin() + kept),
      "gamma has shape " + printed(gamma.shape) + ", x " + printed(x.shape));
  normed n{std::move(x), std::move(gamma), std::move(rstd)};
  n.width = n.gamma.size();
  for (std::int64_t i = 0; i < kept; ++i) n.rows *= n.x.shape[static_cast<std::size_t>(i)];
  p.require(n.width > 0, "rows without elements");
  return n;
}

RLCORE_INLINE tensor row_statistics(const normed& n, const char* name) {
  if (n.rstd.size() < n.rows)
    throw outcome_error{507015, std::string(name) + ": out of bounds write, rstd of shape " + printed(n.rstd.shape) +
                                    " is too small for " + std::to_string(n.rows) + " rows"};
  tensor rows = n.rstd;
  rows.shape = {n.rows};
  rows.strides = {1};
  return rows;
}

RLCORE_INLINE kernel aclnnRmsNorm(planner& p, input self, input weight, double eps, output y_out, output rstd_out) {
  auto x = p.in(self, float_types), gamma = p.in(weight, float_types);
  auto y = p.out(y_out, float_types), rstd = p.out(rstd_out, {data_type::float32});
  p.require(y.type == x.type, "x and y have different types");
  p.require_shape(y, x.shape, "y");
  auto n = normed_rows(p, std::move(x), std::move(gamma), std::move(rstd));
  return in_working_precision(p.machine, [n = std::move(n), y = std::move(y), eps](execution& e, auto real) {
    using Real = decltype(real);
    const tensor statistics = row_statistics(n, "aclnnRmsNorm");
    const auto x_values = e.read<Real>(n.x), g = e.read<Real>(n.gamma);
    const auto to = e.result<Real>(y, true), r = e.result<Real>(statistics);
    const auto width = static_cast<std::size_t>(n.width);
    Real* room = e.take<Real>(width);
    for (std::size_t i = 0; i < r.size(); ++i) {
      const Real* row = x_values.data() + i * width;
      r[i] = inverse_root_mean_square(row, room, width, eps, false);
      for (std::size_t k = 0; k < width; ++k) to[i * width + k] = row[k] * r[i] * g[k];
    }
    e.store(y, to);
    e.store(statistics, r);
  });
}

RLCORE_INLINE kernel aclnnAddRmsNorm(planner& p, input first, input second, input weight, double eps, output y_out,
                                     output rstd_out, output sum_out) {
  auto a = p.in(first, float_types), b = p.in(second, float_types), gamma = p.in(weight, float_types);
  auto y = p.out(y_out, float_types), rstd = p.out(rstd_out, {data_type::float32}), sum = p.out(sum_out, float_types);
  p.require(b.type == a.type && y.type == a.type && sum.type == a.type && gamma.type == a.type,
            "x1, x2, gamma, y and x have different types");
  p.require_shape(b, a.shape, "x2");
  p.require_shape(y, a.shape, "y");
  p.require_shape(sum, a.shape, "x");
  auto n = normed_rows(p, std::move(a), std::move(gamma), std::move(rstd));
  return in_working_precision(p.machine, [n = std::move(n), b = std::move(b), y = std::move(y), sum = std::move(sum),
                                          eps](execution& e, auto real) {
    using Real = decltype(real);
    const bool chain = std::is_same_v<Real, float>;  // the reference mode rounds only results
    const tensor statistics = row_statistics(n, "aclnnAddRmsNorm");
    const auto x1 = e.read<Real>(n.x), x2 = e.read<Real>(b), g = e.read<Real>(n.gamma);
    const auto to = e.result<Real>(y, true), r = e.result<Real>(statistics);
    const std::span<Real> total(e.take<Real>(x1.size()), x1.size());
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = x1[i] + x2[i];
    if (chain && sum.type == data_type::float16) round_to(total, sum.type, e.overflow);
    e.store(sum, total);
    const auto width = static_cast<std::size_t>(n.width);
    Real* room = e.take<Real>(width);
    for (std::size_t i = 0; i < r.size(); ++i) {
      const Real* row = total.data() + i * width;
      r[i] = inverse_root_mean_square(row, room, width, eps, true);
      Real* result = to.data() + i * width;
      for (std::size_t k = 0; k < width; ++k) result[k] = row[k] * r[i];
      if (chain) round_to(std::span<Real>(result, width), y.type, e.overflow);
      for (std::size_t k = 0; k < width; ++k) result[k] *= g[k];
    }
    e.store(y, to);
    e.store(statistics, r);
  });
}

RLCORE_INLINE kernel aclnnRmsNormGrad(planner& p, input gradient, input self, input rstd_in, input weight,
                                      output dx_out, output dgamma_out) {
  auto dy = p.in(gradient, float_types), x = p.in(self, float_types), rstd = p.in(rstd_in, {data_type::float32}),
       gamma = p.in(weight, float_types);
  auto dx = p.out(dx_out, float_types), dgamma = p.out(dgamma_out, {data_type::float32});
  p.require(dy.type == x.type && dx.type == x.type, "dy, x and dx have different types");
  p.require_shape(dy, x.shape, "dy");
  p.require_shape(dx, x.shape, "dx");
  p.require_shape(dgamma, gamma.shape, "dgamma");
  auto n = normed_rows(p, std::move(x), std::move(gamma), std::move(rstd));
  p.require(n.rstd.size() == n.rows, "rstd has not one value per row");
  const std::int64_t cores = 2 * p.machine.cores, share = (n.rows + cores - 1) / cores;
  p.workspace = static_cast<std::uint64_t>(n.width) * 4 + 32;
  return in_working_precision(p.machine, [n = std::move(n), dy = std::move(dy), dx = std::move(dx),
                                          dgamma = std::move(dgamma), share,
                                          fixed = p.deterministic](execution& e, auto real) {
    using Real = decltype(real);
    const auto g = e.read<Real>(dy), x_values = e.read<Real>(n.x), r = e.read<Real>(n.rstd), w = e.read<Real>(n.gamma);
    const auto to = e.result<Real>(dx, true), sums = e.result<Real>(dgamma);
    const auto width = static_cast<std::size_t>(n.width), rows = static_cast<std::size_t>(n.rows),
               rows_of_core = static_cast<std::size_t>(share);
    const std::size_t parts = rows_of_core > 0 ? (rows + rows_of_core - 1) / rows_of_core : 0;
    Real *partial = e.take<Real>(parts * width), *room = e.take<Real>(width), *xn = e.take<Real>(width);
    std::fill(partial, partial + parts * width, Real{0});
    for (std::size_t i = 0; i < rows; ++i) {
      const Real *d = g.data() + i * width, *v = x_values.data() + i * width;
      Real* mine = partial + i / rows_of_core * width;
      for (std::size_t k = 0; k < width; ++k) {
        xn[k] = v[k] * r[i];
        mine[k] += d[k] * xn[k];
        room[k] = d[k] * w[k] * xn[k];
      }
      const Real mean = folded_sum(room, width) * (Real{1} / static_cast<Real>(width));
      for (std::size_t k = 0; k < width; ++k) to[i * width + k] = (d[k] * w[k] - xn[k] * mean) * r[i];
    }
    std::fill(sums.begin(), sums.end(), Real{0});
    const auto order = e.arrival_order(fixed ? 0 : parts);
    for (std::size_t c = 0; c < parts; ++c) {
      const Real* part = partial + (fixed ? c : order[c]) * width;
      for (std::size_t k = 0; k < width; ++k) sums[k] += part[k];
    }
    e.store(dx, to);
    e.store(dgamma, sums);
  });
}

RLCORE_INLINE gated halves(planner& p, const tensor& x, std::int64_t dim) {
  const std::int64_t d = p.dimension(dim, x.rank());
  p.require(x.rank() > 0 && x.shape[static_cast<std::size_t>(d)] % 2 == 0, "an odd extent cannot be halved");
  const std::int64_t half = x.shape[static_cast<std::size_t>(d)] / 2;
  return {narrowed(x, d, 0, half), narrowed(x, d, half, half), x.type};
}

RLCORE_INLINE kernel aclnnSwiGlu(planner& p, input self, std::int64_t dim, output out) {
  auto x = p.in(self, float_types);
  auto y = p.out(out, float_types);
  p.require(y.type == x.type, "input and output have different types");
  auto h = halves(p, x, dim);
  p.require_shape(y, h.gate.shape, "the output");
  return in_working_precision(p.machine, [h = std::move(h), y = std::move(y)](execution& e, auto real) {
    using Real = decltype(real);
    const auto a = e.read<Real>(h.gate), b = e.read<Real>(h.up);
    const auto to = e.result<Real>(y);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = a[i] / (Real{1} + e.exp(-a[i])) * b[i];
    e.store(y, to);
  });
}

RLCORE_INLINE kernel aclnnSwiGluGrad(planner& p, input gradient, input self, std::int64_t dim, output out) {
  auto dy = p.in(gradient, float_types), x = p.in(self, float_types);
  auto dx = p.out(out, float_types);
  p.require(dy.type == x.type && dx.type == x.type, "gradient, input and output have different types");
  p.require_shape(dx, x.shape, "the output");
  auto h = halves(p, x, dim), to = halves(p, dx, dim);
  p.require_shape(dy, h.gate.shape, "the gradient");
  const std::int64_t d = p.dimension(dim, x.rank());
  std::int64_t row = static_cast<std::int64_t>(bytes_of(x.type));
  for (std::int64_t i = d; i < x.rank(); ++i) row *= h.gate.shape[static_cast<std::size_t>(i)];
  if (row % 64 != 0) p.refuse(tiling_failed, "half a row of " + std::to_string(row) + " bytes is not a multiple of 64");
  return in_working_precision(p.machine,
                              [h = std::move(h), to = std::move(to), dy = std::move(dy)](execution& e, auto real) {
                                using Real = decltype(real);
                                const auto g = e.read<Real>(dy), a = e.read<Real>(h.gate), b = e.read<Real>(h.up);
                                Real *da = e.take<Real>(g.size()), *db = e.take<Real>(g.size());
                                for (std::size_t i = 0; i < g.size(); ++i) {
                                  const Real s = sigmoid(e, a[i]);
                                  da[i] = g[i] * b[i] * (s * (Real{1} + a[i] * (Real{1} - s)));
                                  db[i] = g[i] * (a[i] * s);
                                }
                                e.store(to.gate, std::span<Real>(da, g.size()));
                                e.store(to.up, std::span<Real>(db, g.size()));
                              });
}

RLCORE_INLINE kernel aclnnRotaryPositionEmbedding(planner& p, input self, input cosine, input sine, std::int64_t mode,
                                                  output out) {
  auto x = p.in(self, float_types), c = p.in(cosine, float_types), s = p.in(sine, float_types);
  auto y = p.out(out, float_types);
  p.require(c.type == x.type && s.type == x.type && y.type == x.type, "x, cos, sin and out have different types");
  p.require(mode == 0 || mode == 1, "mode " + std::to_string(mode) + " is neither 0 nor 1");
  p.require(x.rank() == 4 || x.rank() == 3, "x is neither of rank 4 nor of rank 3");
  p.require_shape(y, x.shape, "the output");
  p.require(y.contiguous(), "the output has gaps between its rows");
  p.require_shape(s, c.shape, "sin");
  p.require(c.rank() == x.rank() && broadcastable(c.shape, x.shape) && c.shape.back() == x.shape.back(),
            "cos of shape " + printed(c.shape) + " for x of shape " + printed(x.shape));
  const std::int64_t head = x.shape.back();
  p.require(head < 896 && head % 2 == 0, "a head of width " + std::to_string(head));
  if (x.rank() == 4) {
    const bool heads_second = c.shape[1] == 1 && (c.shape[2] != 1 || x.shape[1] != 1);  // BNSD
    const std::int64_t batch = x.shape[0], heads = heads_second ? x.shape[1] : x.shape[2],
                       positions = heads_second ? x.shape[2] : x.shape[1];
    if (mode == 0 && heads_second) {
      p.require(batch < 1000 && heads < 1000, "1000 and more heads or sequences");
      const bool aligned = head / 2 * static_cast<std::int64_t>(bytes_of(x.type)) % 32 == 0;
      if (aligned && batch > 1 && positions > 1 && batch * heads > 8 * positions)
        p.refuse(tiling_failed, "BNSD with B N > 8 S: " + printed(x.shape) + " (use BSND or TND)");
    }
  }
  const tensor cos_view = expanded(std::move(c), x.shape), sin_view = expanded(std::move(s), x.shape);
  return in_working_precision(
      p.machine, [x = std::move(x), y = std::move(y), cos_view, sin_view, mode](execution& e, auto real) {
        using Real = decltype(real);
        const auto v = e.read<Real>(x), cosines = e.read<Real>(cos_view), sines = e.read<Real>(sin_view);
        const auto to = e.result<Real>(y);
        const auto width = static_cast<std::size_t>(x.shape.back());
        for (std::size_t row = 0; row < to.size(); row += width)
          for (std::size_t i = 0; i < width; ++i) {
            const rotary_pair pair = rotated(mode, i, width);
            const Real other = v[row + pair.other], turned = pair.negative ? -other : other;
            to[row + i] = v[row + i] * cosines[row + i] + turned * sines[row + i];
          }
        e.store(y, to);
      });
}

}  // namespace ascend::emulated::plans
RLCORE_END
#endif
