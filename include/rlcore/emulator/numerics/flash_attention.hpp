// Flash attention in the order of the vendor's kernel, forward and backward.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/numerics/cube.hpp"
#include "rlcore/emulator/numerics/rounding.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

/// The visible keys of one sequence: query i sees key j if j <= i + ahead and mask[i * mask_row + j] is 0.
struct visible_keys {
  static constexpr std::int64_t unlimited = std::int64_t{1} << 40;
  std::int64_t keys = 0, ahead = unlimited;
  const std::uint8_t* mask = nullptr;
  std::ptrdiff_t mask_row = 0;

  /// One past the last key that is not ahead of the query; the mask may hide earlier ones.
  std::int64_t end(std::int64_t query) const { return std::clamp<std::int64_t>(query + ahead + 1, 0, keys); }
  /// Whether the query attends to the key.
  bool sees(std::int64_t query, std::int64_t key) const {
    return key < end(query) && (mask == nullptr || mask[query * mask_row + key] == 0);
  }
};

/// One query head of one sequence. Real is float, or double in the reference mode, which rounds nowhere inside.
template <class Real>
struct attention_head {
  std::int64_t queries = 0, width = 0, value_width = 0;  ///< rows of q; columns of q and k; columns of v and out
  matrix<Real> q, k, v;
  visible_keys visible;
  Real scale = 1;
  data_type type = data_type::bfloat16;  ///< of q, k, v, and of P before it is multiplied
  overflow_mode overflow = overflow_mode::infnan;

  cube_order order() const { return {type == data_type::float32 ? 8 : 16, {}, 1}; }
};

/// The order of the vector unit's sums over a row: 64 lanes, then halves onto halves.
template <class Real>
Real sum_by_lanes(const Real* x, std::int64_t n) {
  std::array<Real, 64> partial{};
  std::int64_t j = 0;
  for (; j + 64 <= n; j += 64)
    for (std::size_t i = 0; i < 64; ++i) partial[i] += x[j + static_cast<std::int64_t>(i)];
  for (std::size_t i = 0; j < n; ++i, ++j) partial[i] += x[j];
  for (std::size_t half = 32; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) partial[i] += partial[i + half];
  return partial[0];
}

/// Rounds a matrix to the type of q, ties away from zero, as the vector unit does before the cube multiplies it.
template <class Real>
void round_for_cube(const attention_head<Real>& head, std::vector<Real>& x) {
  if constexpr (std::is_same_v<Real, float>) round_values(x, head.type, rounding::nearest_away, head.overflow);
}

/// out = softmax(scale q k^T) v over the visible keys (Dao et al., "FlashAttention", 2022). The cube's q k^T is scaled
/// in fp32; softmax advances over blocks of 1024 keys with running maximum m and sum l in fp32; P = exp(s - m) is
/// rounded to the input type (ties away) before P v; out is rescaled and summed in fp32 and divided by l at the end. A
/// query that sees no key gets out = 0, m = lowest, l = 0. out[queries, value_width] unrounded, m[queries], l[queries].
/// exp is the machine's exponential.
template <class Real, class Exp>
void attention_forward(const attention_head<Real>& head, Real* out, Real* maximum, Real* sum, const Exp& exp) {
  constexpr std::int64_t query_block = 128, key_block = 1024;
  constexpr Real lowest = std::numeric_limits<float>::lowest();
  std::vector<Real> p, pv, factor;
  std::fill(out, out + head.queries * head.value_width, Real{0});
  std::fill(maximum, maximum + head.queries, lowest);
  std::fill(sum, sum + head.queries, Real{0});
  for (std::int64_t q0 = 0; q0 < head.queries; q0 += query_block) {
    const std::int64_t rows = std::min(query_block, head.queries - q0), last = head.visible.end(q0 + rows - 1);
    for (std::int64_t k0 = 0; k0 < last; k0 += key_block) {
      const std::int64_t columns = std::min(key_block, last - k0);
      p.resize(static_cast<std::size_t>(rows * columns));
      pv.resize(static_cast<std::size_t>(rows * head.value_width));
      factor.assign(static_cast<std::size_t>(rows), Real{1});
      cube::multiply(head.order(), rows, columns, head.width, head.q.at(q0, 0), head.k.at(k0, 0).transposed(),
                     p.data());
      for (std::int64_t r = 0; r < rows; ++r) {
        const std::int64_t query = q0 + r, n = std::clamp<std::int64_t>(head.visible.end(query) - k0, 0, columns);
        Real* row = p.data() + r * columns;
        Real top = maximum[query];
        for (std::int64_t j = 0; j < n; ++j) {
          row[j] = head.visible.sees(query, k0 + j) ? row[j] * head.scale : -std::numeric_limits<Real>::infinity();
          if (row[j] > top) top = row[j];
        }
        std::fill(row + n, row + columns, Real{0});
        if (top == lowest) {
          std::fill(row, row + n, Real{0});
          continue;
        }
        for (std::int64_t j = 0; j < n; ++j) row[j] = exp(row[j] - top);
        factor[static_cast<std::size_t>(r)] = maximum[query] == lowest ? Real{0} : exp(maximum[query] - top);
        maximum[query] = top;
        sum[query] *= factor[static_cast<std::size_t>(r)];
      }
      for (std::int64_t r = 0; r < rows; ++r) sum[q0 + r] += sum_by_lanes(p.data() + r * columns, columns);
      round_for_cube(head, p);
      cube::multiply(head.order(), rows, head.value_width, columns, matrix<Real>{p.data(), columns, 1},
                     head.v.at(k0, 0), pv.data());
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t d = 0; d < head.value_width; ++d)
          out[(q0 + r) * head.value_width + d] *= factor[static_cast<std::size_t>(r)];
      for (std::int64_t i = 0; i < rows * head.value_width; ++i)
        out[q0 * head.value_width + i] += pv[static_cast<std::size_t>(i)];
    }
    for (std::int64_t r = q0; r < q0 + rows; ++r)
      if (sum[r] != 0)
        for (std::int64_t d = 0; d < head.value_width; ++d) out[r * head.value_width + d] /= sum[r];
  }
}

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
