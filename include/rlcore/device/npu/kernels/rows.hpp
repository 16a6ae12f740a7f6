// Rows gathered, scattered, copied and summed; elementwise helpers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// y[k] = x[ids[k]], x of `rows` rows.
inline void gather_rows(context& c, float* y, const float* x, extent_t rows, const std::int32_t* ids, extent_t count,
                        extent_t w) {
  if (count * w == 0) return;
  const auto from = c.table(x, rows, w);
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    c.select(from, c.view(ids + first, {n}), c.rows(y + first * w, n, w));
  });
}

/// One more than the largest of the ids, read back to the host. Operators that add at indices may copy their target, so
/// they get no more rows of it than they need. Throws std::invalid_argument if one is negative.
inline extent_t rows_named(context& c, const std::int32_t* ids, extent_t count) {
  std::vector<std::int32_t> host(static_cast<std::size_t>(count));
  c.q.download(host.data(), ids, host.size() * sizeof(std::int32_t));
  const auto [least, most] = std::minmax_element(host.begin(), host.end());
  if (*least < 0) throw std::invalid_argument("rlcore: npu: index " + std::to_string(*least) + " of a row");
  return extent_t{*most} + 1;
}

/// y[ids[k]] += x[k], k in order if the device is deterministic.
inline void scatter_add_rows(context& c, float* y, const float* x, const std::int32_t* ids, extent_t count,
                             extent_t w) {
  if (count * w == 0) return;
  const auto to = c.rows(y, rows_named(c, ids, count), w);
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    c.run(c.op().aclnnIndexAdd, to, std::int64_t{0}, c.view(ids + first, {n}), c.rows(x + first * w, n, w),
          c.q.scalar(1.0f), to);
  });
}

/// y[ids[k]] = x[k], or y[k] if ids is null.
inline void copy_rows(context& c, float* y, extent_t y_row, const std::int32_t* ids, const float* x, extent_t x_row,
                      extent_t count, extent_t w) {
  if (count * w == 0) return;
  const extent_t rows = ids != nullptr ? rows_named(c, ids, count) : 0;
  for_pieces(count, w, most_elements, [&](extent_t first, extent_t n) {
    const auto from = c.rows(x + first * x_row, n, w, x_row);
    if (ids == nullptr)
      c.copy(c.rows(y + first * y_row, n, w, y_row), from);
    else
      c.run(c.op().aclnnIndexPutImpl, c.rows(y, rows, w, y_row), c.q.list({c.view(ids + first, {n})}), from, false,
            false);
  });
}

/// total[w] += the sum of the rows of x[t,w].
inline void sum_rows(context& c, float* total, const float* x, extent_t t, extent_t w) {
  if (w == 0) return;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    const auto sums = c.take<float>(w);
    c.sum(c.rows(x + first * w, n, w), 0, false, c.view(sums.data(), {w}));
    c.add(c.view(total, {w}), c.view(sums.data(), {w}), c.view(total, {w}));
  });
}

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
inline void scale_rows(context& c, float* y, const float* x, const float* factor, extent_t t, extent_t w) {
  if (w == 0) return;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    c.mul(c.rows(x + first * w, n, w), c.view(factor + first, {n, 1}), c.rows(y + first * w, n, w));
  });
}
/// y[t] = the sum over w of a[t,w] b[t,w].
inline void dot_rows(context& c, float* y, const float* a, const float* b, extent_t t, extent_t w) {
  if (w == 0) return fill(c, y, 0, t);
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t n) {
    const auto product = c.take<float>(n * w);
    c.mul(c.rows(a + first * w, n, w), c.rows(b + first * w, n, w), c.rows(product.data(), n, w));
    c.sum(c.rows(product.data(), n, w), 1, false, c.view(y + first, {n}));
  });
}

}  // namespace ascend::kernels
RLCORE_END
