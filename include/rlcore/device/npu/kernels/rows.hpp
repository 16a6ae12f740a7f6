// Rows on the NPU: gather, scatter-add, copy and sum; maximum, discounted suffix sums and compaction over slots.
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

/// largest[rows] = the largest of each row of x[rows, width].
void row_largest(context& c, float* largest, const float* x, extent_t rows, extent_t width);

/// y[i, t] += factor x[i, t + 1].
void add_next_slots(context& c, float* y, const float* x, float factor, extent_t rows, extent_t width);

/// Double buffer of matrices with `width` columns, zero-padded at the row ends, so that shifted slots are a view of the
/// same shape.
class padded_rows {
 public:
  /// Room for `rows` rows with `padding` zeros each.
  padded_rows(const context& c, extent_t rows, extent_t width, extent_t padding)
      : c_(c), rows_(rows), width_(width), row_(width + padding), memory_(c.take<float>(2 * rows * row_)) {
    if (rows != 0) c.fill(c.view(memory_.data(), {2 * rows * row_}), 0);
  }
  /// The read buffer, shifted by `by` slots.
  tensor_argument now(extent_t by = 0) const { return at(reads_, by); }
  /// The write buffer; turn() swaps the two.
  tensor_argument next() const { return at(1 - reads_, 0); }
  void turn() noexcept { reads_ = 1 - reads_; }

 private:
  tensor_argument at(extent_t half, extent_t by) const {
    return c_.rows(memory_.data() + half * rows_ * row_ + by, rows_, width_, row_);
  }
  const context& c_;
  extent_t rows_, width_, row_, reads_ = 0;
  scratch<float> memory_;
};

/// y[i, t] = x[i, t] + decay y[i, t + 1], with `open` [rows, width] of 0 and 1: + decay open[i, t] y[i, t + 1]. In
/// windows of 1, 2, 4, ... slots: an operator for each doubling (three with `open`), whose rounding errors do not add
/// up along the row. y may be x.
void suffix_sums(context& c, float* y, const float* x, double decay, const float* open, extent_t rows, extent_t width);

/// order[i, k]: the k-th slot of row i when live slots (live is 1, else 0) come first, in order; place[i, t]: the
/// position of slot t in that order.
void live_first(context& c, std::int64_t* order, std::int64_t* place, const float* live, extent_t rows, extent_t width);

/// y[i, t] = x[i, slots[i, t]].
void pick_slots(context& c, float* y, const float* x, const std::int64_t* slots, extent_t rows, extent_t width);

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

RLCORE_INLINE void row_largest(context& c, float* largest, const float* x, extent_t rows, extent_t width) {
  if (rows * width == 0) return;
  for_pieces(rows, width, most_elements, [&](extent_t first, extent_t n) {
    c.largest(c.rows(x + first * width, n, width), 1, false, c.view(largest + first, {n}));
  });
}

RLCORE_INLINE void add_next_slots(context& c, float* y, const float* x, float factor, extent_t rows, extent_t width) {
  if (rows == 0 || width < 2) return;
  for_pieces(rows, width, most_elements, [&](extent_t first, extent_t n) {
    const auto to = c.rows(y + first * width, n, width - 1, width);
    c.run(c.op().aclnnAdd, to, c.rows(x + first * width + 1, n, width - 1, width), c.q.scalar(factor), to);
  });
}

RLCORE_INLINE void suffix_sums(context& c, float* y, const float* x, double decay, const float* open, extent_t rows,
                               extent_t width) {
  if (rows * width == 0) return;
  extent_t padding = 1;
  while (2 * padding < width) padding *= 2;
  for_pieces(rows, width + padding, most_temporary, [&](extent_t first, extent_t n) {
    const extent_t marked = open == nullptr ? 0 : n;
    padded_rows sums(c, n, width, padding), opened(c, marked, width, padding);
    const auto further = c.take<float>(marked * width);
    c.copy(sums.now(), c.rows(x + first * width, n, width));
    if (open != nullptr) c.copy(opened.now(), c.rows(open + first * width, n, width));
    double factor = decay;
    for (extent_t window = 1; window < width; window *= 2, factor *= factor) {
      const auto add = [&](tensor_ref what) {
        c.run(c.op().aclnnAdd, sums.now(), what, c.q.scalar(static_cast<float>(factor)), sums.next());
      };
      if (open == nullptr) {
        add(sums.now(window));
      } else {
        const auto part = c.rows(further.data(), n, width);
        c.mul(opened.now(), sums.now(window), part);
        add(part);
        c.mul(opened.now(), opened.now(window), opened.next());
        opened.turn();
      }
      sums.turn();
    }
    c.copy(c.rows(y + first * width, n, width), sums.now());
  });
}

RLCORE_INLINE void live_first(context& c, std::int64_t* order, std::int64_t* place, const float* live, extent_t rows,
                              extent_t width) {
  if (rows * width == 0) return;
  for_pieces(rows, width, most_temporary, [&](extent_t first, extent_t n) {
    const extent_t at = first * width;
    const auto sorted = c.take<float>(n * width), slot = c.take<float>(n * width);
    const auto keys = c.rows(sorted.data(), n, width), slots = c.rows(slot.data(), n, width);
    const auto front = c.rows(order + at, n, width);
    c.run(c.op().aclnnSort, c.rows(live + at, n, width), true, std::int64_t{1}, true, keys, front);
    c.cast(front, slots);  // integers below 2^24, to invert the permutation
    c.run(c.op().aclnnSort, slots, true, std::int64_t{1}, false, keys, c.rows(place + at, n, width));
  });
}

RLCORE_INLINE void pick_slots(context& c, float* y, const float* x, const std::int64_t* slots, extent_t rows,
                              extent_t width) {
  if (rows * width == 0) return;
  for_pieces(rows, width, most_elements, [&](extent_t first, extent_t n) {
    const extent_t at = first * width;
    c.run(c.op().aclnnGather, c.rows(x + at, n, width), std::int64_t{1}, c.rows(slots + at, n, width),
          c.rows(y + at, n, width));
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
