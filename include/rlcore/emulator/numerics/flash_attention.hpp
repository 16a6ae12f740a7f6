// Flash attention forward for one head, as the NPU's fused kernel computes it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
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

}  // namespace ascend::emulated
RLCORE_END
