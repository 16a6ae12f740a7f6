// Gather, scatter-add, copy and sum of rows on the NPU; elementwise helpers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// y[k] = x[ids[k]], x of `rows` rows.
void gather_rows(context& c, float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count,
                 extent_t w);

/// y[ids[k]] += x[k], k in order if the device is deterministic.
void scatter_add_rows(context& c, float* y, const float* x, row_ids ids, extent_t count, extent_t w);

/// y[ids[k]] = x[k], or y[k] without ids.
void copy_rows(context& c, float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row, extent_t count,
               extent_t w);

/// total[w] += the sum of the rows of x[t,w].
void sum_rows(context& c, float* total, const float* x, extent_t t, extent_t w);

/// y[n] = a + b.
inline void add(context& c, float* y, const float* a, const float* b, extent_t n) {
  for_pieces(n, 1, most_elements, [&](extent_t first, extent_t m) {
    c.add(c.view(a + first, {m}), c.view(b + first, {m}), c.view(y + first, {m}));
  });
}
/// y[n] *= factor.
inline void scale(context& c, float* y, float factor, extent_t n) {
  for_pieces(n, 1, most_elements,
             [&](extent_t first, extent_t m) { c.mul(c.view(y + first, {m}), factor, c.view(y + first, {m})); });
}
/// y[n] = value.
inline void fill(context& c, float* y, float value, extent_t n) {
  for_pieces(n, 1, most_elements, [&](extent_t first, extent_t m) { c.fill(c.view(y + first, {m}), value); });
}

/// y[t,w] = factor[t] x[t,w].
void scale_rows(context& c, float* y, const float* x, const float* factor, extent_t t, extent_t w);
/// y[t] = the sum over w of a[t,w] b[t,w].
void dot_rows(context& c, float* y, const float* a, const float* b, extent_t t, extent_t w);

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void gather_rows(context& c, float* y, const float* x, extent_t rows, const std::int32_t* ids,
                               extent_t count, extent_t w) {
  if (count * w == 0) return;
  const auto from = c.table(x, rows, w);
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    c.select(from, c.view(ids + first, {n}), c.rows(y + first * w, n, w));
  });
}

RLCORE_INLINE void scatter_add_rows(context& c, float* y, const float* x, row_ids ids, extent_t count, extent_t w) {
  if (count * w == 0) return;
  const auto to = c.rows(y, ids.rows, w);
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    c.run(c.op().aclnnIndexAdd, to, std::int64_t{0}, c.view(ids.data + first, {n}), c.rows(x + first * w, n, w),
          c.q.scalar(1.0f), to);
  });
}

RLCORE_INLINE void copy_rows(context& c, float* y, extent_t y_row, row_ids ids, const float* x, extent_t x_row,
                             extent_t count, extent_t w) {
  if (count * w == 0) return;
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    const auto from = c.rows(x + first * x_row, n, w, x_row);
    if (ids.data == nullptr)
      c.copy(c.rows(y + first * y_row, n, w, y_row), from);
    else
      c.run(c.op().aclnnIndexPutImpl, c.rows(y, ids.rows, w, y_row), c.q.list({c.view(ids.data + first, {n})}), from,
            false, false);
  });
}

RLCORE_INLINE void sum_rows(context& c, float* total, const float* x, extent_t t, extent_t w) {
  if (w == 0) return;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    const auto sums = c.take<float>(w);
    c.sum(c.rows(x + first * w, n, w), 0, false, c.view(sums.data(), {w}));
    c.add(c.view(total, {w}), c.view(sums.data(), {w}), c.view(total, {w}));
  });
}

RLCORE_INLINE void scale_rows(context& c, float* y, const float* x, const float* factor, extent_t t, extent_t w) {
  if (w == 0) return;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    c.mul(c.rows(x + first * w, n, w), c.view(factor + first, {n, 1}), c.rows(y + first * w, n, w));
  });
}

RLCORE_INLINE void dot_rows(context& c, float* y, const float* a, const float* b, extent_t t, extent_t w) {
  if (w == 0) return fill(c, y, 0, t);
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    const auto product = c.take<float>(n * w);
    c.mul(c.rows(a + first * w, n, w), c.rows(b + first * w, n, w), c.rows(product.data(), n, w));
    c.sum(c.rows(product.data(), n, w), 1, false, c.view(y + first, {n}));
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
