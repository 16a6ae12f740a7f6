// Flash attention backward, as the NPU's fused kernel computes it, for the heads of one sequence that share keys.
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

/// One query head with the results of its forward pass: out[queries, value_width] as stored, m and l of every query.
template <class Real>
struct attention_gradient_head {
  attention_head<Real> forward;
  matrix<Real> out, dout;
  const Real* maximum = nullptr;
  const Real* sum = nullptr;
  Real* dq = nullptr;  ///< [queries, width], fp32, before the final rounding
};

namespace detail {

/// 128 queries of a head times 128 keys, by the first of each.
struct gradient_block {
  static constexpr std::int64_t side = 128;
  std::size_t head;
  std::int64_t query, key;
};

/// The blocks that any query sees: heads outermost, then queries, then keys.
template <class Real>
std::vector<gradient_block> gradient_blocks(std::span<const attention_gradient_head<Real>> heads) {
  constexpr std::int64_t side = gradient_block::side;
  const attention_head<Real>& shape = heads.front().forward;
  std::vector<gradient_block> blocks;
  for (std::size_t h = 0; h < heads.size(); ++h)
    for (std::int64_t i = 0; i < shape.queries; i += side)
      for (std::int64_t j = 0; j < shape.visible.end(std::min(i + side, shape.queries) - 1); j += side)
        blocks.push_back({h, i, j});
  return blocks;
}

/// sum(dout out) over the width of each query of each head.
template <class Real>
std::vector<Real> output_products(std::span<const attention_gradient_head<Real>> heads) {
  const std::int64_t queries = heads.front().forward.queries, width = heads.front().forward.value_width;
  std::vector<Real> delta, products(static_cast<std::size_t>(width));
  for (const auto& head : heads)
    for (std::int64_t i = 0; i < queries; ++i) {
      const auto o = head.out.at(i, 0), g = head.dout.at(i, 0);
      for (std::int64_t d = 0; d < width; ++d)
        products[static_cast<std::size_t>(d)] = o.data[d * o.column] * g.data[d * g.column];
      delta.push_back(sum_by_lanes(products.data(), width));
    }
  return delta;
}

/// P and dS of one block, [rows, columns], as the cube multiplies them. `delta` has the head's queries.
template <class Real>
struct block_slopes {
  std::vector<Real> p, ds;
  std::int64_t rows = 0, columns = 0;

  template <class Exp>
  void compute(const attention_gradient_head<Real>& head, const gradient_block& b, const Real* delta, const Exp& exp) {
    const attention_head<Real>& f = head.forward;
    rows = std::min(gradient_block::side, f.queries - b.query);
    columns = std::min(gradient_block::side, f.visible.keys - b.key);
    p.resize(static_cast<std::size_t>(rows * columns));
    ds.resize(p.size());
    const cube_order order = f.order();
    cube::multiply(order, rows, columns, f.width, f.q.at(b.query, 0), f.k.at(b.key, 0).transposed(), p.data());
    cube::multiply(order, rows, columns, f.value_width, head.dout.at(b.query, 0), f.v.at(b.key, 0).transposed(),
                   ds.data());
    for (Real& s : p) s *= f.scale;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t query = b.query + r;
      const Real top = head.maximum[query], total = head.sum[query], mean = delta[query];
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
  }
};

}  // namespace detail

/// dq of every head, dk[keys, width] and dv[keys, value_width] of the keys that the heads share. P = exp(s - m) / l is
/// recomputed in fp32; delta = sum(dout out) over the width, by lanes; dS = P (dout v^T - delta). P and dS are rounded
/// to the input type, ties away, before their products. Blocks of 128 queries times 128 keys add their dq = dS k, dk =
/// dS^T q, dv = P^T dout to fp32 sums in order of arrival; dq and dk are multiplied by scale at the end. `arrival(n)`
/// is a permutation of 0..n-1 in which the n blocks arrive, heads outermost, then queries, then keys if it is the
/// identity.
template <class Real, class Exp, class Arrival>
void attention_backward(std::span<const attention_gradient_head<Real>> heads, Real* dk, Real* dv, const Exp& exp,
                        const Arrival& arrival) {
  if (heads.empty()) return;
  const attention_head<Real>& shape = heads.front().forward;
  const std::int64_t keys = shape.visible.keys, queries = shape.queries, width = shape.width,
                     out_width = shape.value_width;
  const cube_order order = shape.order();
  std::fill(dk, dk + keys * width, Real{0});
  std::fill(dv, dv + keys * out_width, Real{0});
  for (const auto& head : heads) std::fill(head.dq, head.dq + queries * width, Real{0});

  const std::vector<Real> delta = detail::output_products(heads);
  const std::vector<detail::gradient_block> blocks = detail::gradient_blocks(heads);
  std::vector<Real> part;
  const auto add_product = [&](std::int64_t m, std::int64_t n, std::int64_t k, matrix<Real> a, matrix<Real> b,
                               Real* to) {
    part.resize(static_cast<std::size_t>(m * n));
    cube::multiply(order, m, n, k, a, b, part.data());
    for (std::size_t i = 0; i < part.size(); ++i) to[i] += part[i];
  };
  detail::block_slopes<Real> slopes;
  for (const auto index : arrival(blocks.size())) {
    const detail::gradient_block& b = blocks[static_cast<std::size_t>(index)];
    const auto& head = heads[b.head];
    const auto& f = head.forward;
    slopes.compute(head, b, delta.data() + b.head * static_cast<std::size_t>(queries), exp);
    const std::int64_t rows = slopes.rows, columns = slopes.columns;
    const matrix<Real> p{slopes.p.data(), columns, 1}, ds{slopes.ds.data(), columns, 1};
    add_product(columns, out_width, rows, p.transposed(), head.dout.at(b.query, 0), dv + b.key * out_width);
    add_product(rows, width, columns, ds, f.k.at(b.key, 0), head.dq + b.query * width);
    add_product(columns, width, rows, ds.transposed(), f.q.at(b.query, 0), dk + b.key * width);
  }
  for (std::int64_t i = 0; i < keys * width; ++i) dk[i] *= shape.scale;
  for (const auto& head : heads)
    for (std::int64_t i = 0; i < queries * width; ++i) head.dq[i] *= shape.scale;
}

}  // namespace ascend::emulated
RLCORE_END
