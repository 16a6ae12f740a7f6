// Matrix multiplication (GEMM) in the arithmetic of the NPU's cube unit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "rlcore/core/abi.hpp"
#include "rlcore/emulator/numerics/cube_tiles.hpp"
#include "rlcore/exec/threads.hpp"

RLCORE_BEGIN
namespace ascend::emulated {

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
