// Matrix products of the cube unit: tiles, order of sums, split of the contracted dimension.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/exec/threads.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

namespace cube_sse2 {
inline constexpr int lanes = 2, rows_at_once = 2;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_sse2

#if defined(__x86_64__)

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace cube_avx2 {
inline constexpr int lanes = 4, rows_at_once = 4;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_avx2
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl,avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx2,fma")
#endif
namespace cube_avx512 {
inline constexpr int lanes = 8, rows_at_once = 8;
#include "rlcore/emulator/numerics/cube_tile.inc"
}  // namespace cube_avx512
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif  // __x86_64__

/// The inner loops: c[8, 8] += a b, see cube_tile.inc.
struct cube_tiles {
  const char* name;
  void (*add_float)(float*, const double*, const double*, std::int64_t, std::int64_t);
  void (*add_double)(double*, const double*, const double*, std::int64_t, std::int64_t);
};

/// The fastest loop that this processor supports, or the one called `name` (sse2, avx2, avx512) if it is supported.
inline cube_tiles choose_cube_tiles(const char* name = nullptr) {
  const auto is = [name](char first, int length) {
    return name == nullptr || (name[0] == first && __builtin_strlen(name) == static_cast<std::size_t>(length));
  };
#if defined(__x86_64__)
  if (is('a', 6) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return {"avx512", cube_avx512::add_float, cube_avx512::add_double};
  if ((is('a', 4) || is('a', 6)) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"avx2", cube_avx2::add_float, cube_avx2::add_double};
#endif
  return {"sse2", cube_sse2::add_float, cube_sse2::add_double};
}

/// The shape of a product c[m, n] = a[m, k] b[k, n] for elements of `bytes` bytes (2 or 4). a or b is transposed if it
/// lies in memory with m or k as its outer dimension exchanged, i.e. as [k, m] or [n, k].
struct product_shape {
  std::int64_t m = 0, n = 0, k = 0;
  int bytes = 2;
  bool a_transposed = false, b_transposed = false, hf32 = false;
};

/// Where each part of the sum over k ends. Every part is summed on its own in fp32; the parts are then added in fp32,
/// in order. One part is the rule; K is cut
///  - at every 768 bytes, if k >= 27392 and the 128 x 256 tiles of c occupy all cores (single-core split);
///  - else into one run of 768-byte pieces per core, as even as possible, if k >= 27392; if k >= 384 cores and the 128
///  x
///    128 tiles of c are fewer than half the cores, unless a is plain and b transposed (a linear layer's forward);
///    if a is transposed and b plain (a weight's gradient), 1000 <= k <= 4608 and m, n <= 256; or, for fp32 without
///    HF32, if m, n <= 64 and k >= 6144 (deterministic multi-core split).
/// The thresholds are the tiling's, the assignment of pieces to cores is ours.
inline std::vector<std::int64_t> split_k(const product_shape& p, int cores) {
  const auto tiles = [&](std::int64_t columns) { return (p.m + 127) / 128 * ((p.n + columns - 1) / columns); };
  const std::int64_t piece = 768 / p.bytes, pieces = (p.k + piece - 1) / piece;
  const bool long_k = p.k >= 27392;
  std::vector<std::int64_t> ends;
  if (long_k && tiles(256) >= cores) {
    for (std::int64_t i = 1; i <= pieces; ++i) ends.push_back(std::min(i * piece, p.k));
    return ends;
  }
  const bool few_tiles =
      p.k >= std::int64_t{384} * cores && tiles(128) < cores / 2 && (p.a_transposed || !p.b_transposed);
  const bool weight_gradient =
      p.a_transposed && !p.b_transposed && p.k >= 1000 && p.k <= 4608 && p.m <= 256 && p.n <= 256;
  const bool tiny_float = p.bytes == 4 && !p.hf32 && p.m <= 64 && p.n <= 64 && p.k >= 6144;
  const std::int64_t parts =
      long_k || few_tiles || weight_gradient || tiny_float ? std::min<std::int64_t>(pieces, cores) : 1;
  for (std::int64_t i = 1; i <= parts; ++i) ends.push_back(std::min(pieces * i / parts * piece, p.k));
  return ends;
}

/// An operand of the cube, already in the values of its type: element (i, j) is data[i * row + j * column]. Operands of
/// double are for the reference mode alone.
template <class Value>
struct matrix {
  const Value* data = nullptr;
  std::ptrdiff_t row = 0, column = 1;

  /// The part of the matrix from element (i, j) on.
  matrix at(std::ptrdiff_t i, std::ptrdiff_t j) const { return {data + i * row + j * column, row, column}; }
  matrix transposed() const { return {data, column, row}; }
};

/// How the cube sums over k: exact products are added in double within groups of `group` (K0: 16 for 16-bit types, 8
/// for fp32 and HF32), in order; each group is added to c with one rounding to fp32. Parts of k (see split_k) start
/// from zero and are added to c in order, in fp32. Vendors publish only the fp32 accumulation and K0; the wide sum
/// within a group is our assumption.
struct cube_order {
  int group = 16;
  std::vector<std::int64_t> part_ends;  ///< empty: one part
  int threads = 1;                      ///< host threads for large products; changes no bit; 0 = all
};

/// Matrix products in the order of cube_order.
class cube {
 public:
  /// c[m, n] (row-major) = a b: fp32 accumulation if Value is float, everything in double if it is double.
  template <class Value, class Operand>
  static void multiply(const cube_order& order, std::int64_t m, std::int64_t n, std::int64_t k, matrix<Operand> a,
                       matrix<Operand> b, Value* c) {
    std::fill(c, c + m * n, Value{0});
    if (m == 0 || n == 0 || k == 0) return;
    constexpr double flops_of_one_thread = 5e7;
    const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    if (order.threads == 1 || flops < 2 * flops_of_one_thread) return all_parts(order, {0, m, 0, n}, n, k, a, b, c);
    const rlcore::threads pool(order.threads);
    const std::int64_t tiles = (std::max(m, n) + 7) / 8;
    const auto chunks = std::min(
        {tiles, static_cast<std::int64_t>(pool.concurrency()), static_cast<std::int64_t>(flops / flops_of_one_thread)});
    pool.for_each(static_cast<std::size_t>(chunks), [&](std::size_t i) {
      const auto at = [&](std::int64_t chunk) { return tiles * chunk / chunks * 8; };
      const auto begin = at(static_cast<std::int64_t>(i)), end = at(static_cast<std::int64_t>(i) + 1);
      if (m > n)
        all_parts(order, {begin, std::min(end, m), 0, n}, n, k, a, b, c);
      else
        all_parts(order, {0, m, begin, std::min(end, n)}, n, k, a, b, c);
    });
  }

 private:
  static constexpr std::int64_t k_block = 256, row_block = 256;  // multiples of every group and of a tile

  struct alignas(64) eight {
    double v[8];
  };
  struct patch {
    std::int64_t row, row_end, column, column_end;
  };

  template <class Value, class Operand>
  static void all_parts(const cube_order& order, const patch& where, std::int64_t n, std::int64_t k, matrix<Operand> a,
                        matrix<Operand> b, Value* c) {
    Value* corner = c + where.row * n + where.column;
    if (order.part_ends.size() < 2) return one_part(order.group, where, 0, k, a, b, corner, n);
    const std::int64_t rows = where.row_end - where.row, columns = where.column_end - where.column;
    std::vector<Value> partial(static_cast<std::size_t>(rows * columns));
    std::int64_t begin = 0;
    for (const std::int64_t end : order.part_ends) {
      if (begin == 0) {
        one_part(order.group, where, begin, end, a, b, corner, n);
      } else {
        std::fill(partial.begin(), partial.end(), Value{0});
        one_part(order.group, where, begin, end, a, b, partial.data(), columns);
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            corner[i * n + j] += partial[static_cast<std::size_t>(i * columns + j)];
      }
      begin = end;
    }
  }

  /// c += a[:, begin:end] b[begin:end, :] within a patch whose first row starts at c, the next at c + stride.
  template <class Value, class Operand>
  static void one_part(int group, const patch& where, std::int64_t begin, std::int64_t end, matrix<Operand> a,
                       matrix<Operand> b, Value* c, std::int64_t stride) {
    const cube_tiles tiles = choose_cube_tiles();
    const std::int64_t deepest = std::min(k_block, end - begin);
    const std::int64_t tallest = (std::min(row_block, where.row_end - where.row) + 7) / 8;
    const auto left = std::make_unique_for_overwrite<eight[]>(static_cast<std::size_t>(tallest * deepest));
    const auto right = std::make_unique_for_overwrite<eight[]>(static_cast<std::size_t>(deepest));
    for (std::int64_t k = begin; k < end; k += k_block) {
      const std::int64_t depth = std::min(k_block, end - k);
      for (std::int64_t row = where.row; row < where.row_end; row += row_block) {
        const std::int64_t rows = std::min(row_block, where.row_end - row);
        for (std::int64_t i = 0; i < rows; i += 8)
          pack(left.get() + i / 8 * depth, a.data + (row + i) * a.row + k * a.column, a.row, a.column,
               std::min<std::int64_t>(8, rows - i), depth);
        for (std::int64_t column = where.column; column < where.column_end; column += 8) {
          const std::int64_t columns = std::min<std::int64_t>(8, where.column_end - column);
          pack(right.get(), b.data + k * b.row + column * b.column, b.column, b.row, columns, depth);
          for (std::int64_t i = 0; i < rows; i += 8)
            one_tile(tiles, group, left.get() + i / 8 * depth, right.get(), depth, std::min<std::int64_t>(8, rows - i),
                     columns, c + (row - where.row + i) * stride + column - where.column, stride);
        }
      }
    }
  }

  template <class Value>
  static void one_tile(const cube_tiles& tiles, int group, const eight* left, const eight* right, std::int64_t depth,
                       std::int64_t rows, std::int64_t columns, Value* c, std::int64_t stride) {
    Value tile[64] = {};
    for (std::int64_t i = 0; i < rows; ++i) std::copy(c + i * stride, c + i * stride + columns, tile + 8 * i);
    if constexpr (sizeof(Value) == sizeof(float))
      tiles.add_float(tile, left->v, right->v, depth, group);
    else
      tiles.add_double(tile, left->v, right->v, depth, group);
    for (std::int64_t i = 0; i < rows; ++i) std::copy(tile + 8 * i, tile + 8 * i + columns, c + i * stride);
  }

  /// to[j].v[i] = from[i * stride + j * step] for i < count, j < depth; 0 for the other i.
  template <class Operand>
  static void pack(eight* to, const Operand* from, std::ptrdiff_t stride, std::ptrdiff_t step, std::int64_t count,
                   std::int64_t depth) {
    if (count == 8 && stride == 1) {
      for (std::int64_t j = 0; j < depth; ++j, from += step)
        for (int i = 0; i < 8; ++i) to[j].v[i] = from[i];
    } else if (count == 8) {
      for (std::int64_t j = 0; j < depth; ++j, from += step)
        for (int i = 0; i < 8; ++i) to[j].v[i] = from[i * stride];
    } else {
      for (std::int64_t j = 0; j < depth; ++j, from += step)
        for (std::int64_t i = 0; i < 8; ++i) to[j].v[i] = i < count ? from[i * stride] : Operand{0};
    }
  }
};

}  // namespace ascend::emulated
RLCORE_END
