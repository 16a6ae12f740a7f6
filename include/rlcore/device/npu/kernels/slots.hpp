// Row-wise operations over slots: maximum, discounted suffix sums, compaction of live slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlcore/device/npu/kernels/rows.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

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
