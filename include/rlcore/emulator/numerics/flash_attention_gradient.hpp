// The gradient of attention as the NPU's fused kernel computes it: the heads of one sequence that share keys.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/numerics/flash_attention.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// One query head and what its forward pass left: out[queries, value_width] as stored, m and l of every query.
template <class Real>
struct attention_gradient_head {
  attention_head<Real> forward;
  matrix<Real> out, dout;
  const Real* maximum = nullptr;
  const Real* sum = nullptr;
  Real* dq = nullptr;  ///< [queries, width], fp32, before the final rounding
};

/// dq of every head, dk[keys, width] and dv[keys, value_width] of the keys that the heads share. P = exp(s - m) / l is
/// computed again in fp32; delta = sum(dout out) over the width, by lanes; dS = P (dout v^T - delta). P and dS are
/// rounded to the input type, ties away, before their products. Blocks of 128 queries times 128 keys add their dq = dS
/// k, dk = dS^T q, dv = P^T dout to fp32 sums as they arrive; dq and dk are multiplied by scale at the end.
/// `arrival(n)` is a permutation of 0..n-1 in which the n blocks arrive, heads outermost, then queries, then keys if it
/// is the identity.
template <class Real, class Exp, class Arrival>
void attention_backward(std::span<const attention_gradient_head<Real>> heads, Real* dk, Real* dv, const Exp& exp,
                        const Arrival& arrival) {
  constexpr std::int64_t side = 128;
  if (heads.empty()) return;
  const attention_head<Real>& shape = heads.front().forward;
  const std::int64_t keys = shape.visible.keys, queries = shape.queries, width = shape.width,
                     out_width = shape.value_width;
  const cube_order order = shape.order();
  std::fill(dk, dk + keys * width, Real{0});
  std::fill(dv, dv + keys * out_width, Real{0});

  std::vector<Real> delta(heads.size() * static_cast<std::size_t>(queries)),
      products(static_cast<std::size_t>(out_width));
  for (std::size_t h = 0; h < heads.size(); ++h) {
    std::fill(heads[h].dq, heads[h].dq + queries * width, Real{0});
    for (std::int64_t i = 0; i < queries; ++i) {
      const auto o = heads[h].out.at(i, 0), g = heads[h].dout.at(i, 0);
      for (std::int64_t d = 0; d < out_width; ++d)
        products[static_cast<std::size_t>(d)] = o.data[d * o.column] * g.data[d * g.column];
      delta[h * static_cast<std::size_t>(queries) + static_cast<std::size_t>(i)] =
          sum_by_lanes(products.data(), out_width);
    }
  }

  struct patch {
    std::size_t head;
    std::int64_t query, key;
  };
  std::vector<patch> blocks;
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (std::int64_t i = 0; i < queries; i += side)
      for (std::int64_t j = 0; j < shape.visible.end(std::min(i + side, queries) - 1); j += side)
        blocks.push_back({h, i, j});

  std::vector<Real> p, ds, part;
  const auto add_product = [&](std::int64_t m, std::int64_t n, std::int64_t k, matrix<Real> a, matrix<Real> b,
                               Real* to) {
    part.resize(static_cast<std::size_t>(m * n));
    cube::multiply(order, m, n, k, a, b, part.data());
    for (std::size_t i = 0; i < part.size(); ++i) to[i] += part[i];
  };
  for (const auto index : arrival(blocks.size())) {
    const patch& b = blocks[static_cast<std::size_t>(index)];
    const auto& head = heads[b.head];
    const auto& f = head.forward;
    const std::int64_t rows = std::min(side, queries - b.query), columns = std::min(side, keys - b.key);
    p.resize(static_cast<std::size_t>(rows * columns));
    ds.resize(p.size());
    cube::multiply(order, rows, columns, width, f.q.at(b.query, 0), f.k.at(b.key, 0).transposed(), p.data());
    cube::multiply(order, rows, columns, out_width, head.dout.at(b.query, 0), f.v.at(b.key, 0).transposed(), ds.data());
    for (Real& s : p) s *= f.scale;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = b.query + r;
      const Real top = head.maximum[query], total = head.sum[query];
      const Real mean = delta[b.head * static_cast<std::size_t>(queries) + static_cast<std::size_t>(query)];
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<std::size_t>(r * columns + j);
        if (total == 0 || !f.visible.sees(query, b.key + j)) {
          p[at] = ds[at] = 0;
          continue;
        }
        p[at] = exp(p[at] - top) / total;
        ds[at] = p[at] * (ds[at] - mean);
      }
    }
    round_for_cube(f, p);
    round_for_cube(f, ds);
    const matrix<Real> probabilities{p.data(), columns, 1}, slopes{ds.data(), columns, 1};
    add_product(columns, out_width, rows, probabilities.transposed(), head.dout.at(b.query, 0), dv + b.key * out_width);
    add_product(rows, width, columns, slopes, f.k.at(b.key, 0), head.dq + b.query * width);
    add_product(columns, width, rows, slopes.transposed(), f.q.at(b.query, 0), dk + b.key * width);
  }
  for (std::int64_t i = 0; i < keys * width; ++i) dk[i] *= shape.scale;
  for (const auto& head : heads)
    for (std::int64_t i = 0; i < queries * width; ++i) head.dq[i] *= shape.scale;
}

}  // namespace ascend::emulated
RLCORE_END
