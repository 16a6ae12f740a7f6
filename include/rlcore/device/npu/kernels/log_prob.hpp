// Log-prob of a target and entropy of softmax(logits / temperature), from whole rows or tiles of columns, and their
// gradient, which overwrites the logits. All in float.
#pragma once

#include <cstdint>
#include <limits>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// e^x is 0 below this. x is clamped to it, so that 0 times x is 0 also for an excluded token.
inline constexpr float least_log_prob = -110;

/// The column of each row's target in one tile, in [0, w), and whether the target is in the tile.
class tile_targets {
 public:
  /// Finds n targets in the tile of the columns [first, first + w).
  tile_targets(const context& c, const std::int32_t* targets, extent_t n, extent_t first, extent_t w);
  tensor_argument place() const { return part(1); }
  tensor_argument inside() const { return c_.view(inside_.data(), {n_, 1}); }
  /// place() of row r of a tile of w columns seen as one row: r w + place(), [n].
  tensor_argument flat(extent_t w) const;

 private:
  tensor_argument part(extent_t k) const { return c_.view(numbers_.data() + k * n_, {n_, 1}); }

  const context& c_;
  extent_t n_;
  scratch<std::int32_t> numbers_;
  scratch<bool> inside_;
};

static_assert(sizeof(log_prob_state) == 6 * sizeof(float));
/// The NPU's layout of log_prob_state: six floats per row; 0 .. 3 are the largest z = logits / temperature so far (at
/// least -FLT_MAX), S = sum e^(z - top), sum e^(z - top) (z - top), and z of the target.
struct state_columns {
  tensor_argument top, total, weighted, target;

  /// The columns of n states at `states`.
  state_columns(const context& c, const float* states, extent_t n)
      : top(column(c, states, n)),
        total(column(c, states + 1, n)),
        weighted(column(c, states + 2, n)),
        target(column(c, states + 3, n)) {}
  /// One number of n states, [n, 1]: the one at p and every sixth after it.
  static tensor_argument column(const context& c, const float* p, extent_t n) { return c.view(p, {n, 1}, {6, 1}); }
};

/// Accumulates the columns [first, first + w); `whole`: these are all columns.
void accumulate(context& c, float* states, const float* logits, extent_t t, extent_t w, extent_t first,
                const std::int32_t* targets, float temperature, bool whole);

/// a = the states of both, for t rows; a target outside of a state's columns has z = 0 there.
void merge(context& c, float* a, const float* b, extent_t t);

/// logp = z_target - top - ln S, H = ln S - weighted / S, statistics = {top, ln S}.
void finish(context& c, const float* states, extent_t t, float* logp, float* entropy, float* statistics);

/// op::log_prob_forward: logits [t, vocabulary] in whole rows, logp [t], entropy [t] and statistics [t, 2] or null.
inline void log_prob_forward(context& c, const float* logits, extent_t t, extent_t vocabulary,
                             const std::int32_t* targets, float temperature, float* logp, float* entropy,
                             float* statistics) {
  const auto states = c.take<float>(6 * t);
  accumulate(c, states.data(), logits, t, vocabulary, 0, targets, temperature, true);
  finish(c, states.data(), t, logp, entropy, statistics);
}

/// logits <- (dlogp (1[target] - p) - dH p (log p + H)) / temperature = p (a + b log p) + 1[target] dlogp / temperature
/// with b = -dH / temperature and a = -(dlogp + dH H) / temperature.
void log_prob_backward(context& c, float* logits, extent_t t, extent_t w, extent_t first, const std::int32_t* targets,
                       float temperature, const float* dlogp, const float* dentropy, const float* entropy,
                       const float* statistics);

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE tile_targets::tile_targets(const context& c, const std::int32_t* targets, extent_t n, extent_t first,
                                         extent_t w)
    : c_(c), n_(n), numbers_(c.take<std::int32_t>(3 * n)), inside_(c.take<bool>(n)) {
  const auto local = part(0), place = part(1), off = part(2);
  c.run(c.op().aclnnAdds, c.view(targets, {n, 1}), c.q.scalar(-std::int64_t{first}), c.q.scalar(std::int64_t{1}),
        local);
  c.run(c.op().aclnnClamp, local, c.q.scalar(std::int64_t{0}), c.q.scalar(std::int64_t{w - 1}), place);
  c.sub_integers(local, place, off);
  c.run(c.op().aclnnEqScalar, off, c.q.scalar(std::int64_t{0}), inside());
}

RLCORE_INLINE tensor_argument tile_targets::flat(extent_t w) const {
  c_.run(c_.op().aclnnArange, c_.q.scalar(std::int64_t{0}), c_.q.scalar(std::int64_t{n_ * w}),
         c_.q.scalar(std::int64_t{w}), c_.view(numbers_.data(), {n_}));
  c_.add_integers(part(0), place(), part(2));
  return c_.view(numbers_.data() + 2 * n_, {n_});
}

RLCORE_INLINE void accumulate(context& c, float* states, const float* logits, extent_t t, extent_t w, extent_t first,
                              const std::int32_t* targets, float temperature, bool whole) {
  for_pieces(t, w, most_temporary, [&](extent_t begin, extent_t n) {
    const state_columns state(c, states + 6 * begin, n);
    const auto values = c.take<float>(n * w), shares = c.take<float>(n * w), room = c.take<float>(6 * n);
    const auto z = c.rows(values.data(), n, w), e = c.rows(shares.data(), n, w);
    const auto part = [&](extent_t k) { return c.view(room.data() + k * n, {n, 1}); };
    const auto top = part(0), total = part(1), weighted = part(2), target = part(3), by = part(4), factor = part(5);
    c.mul(c.rows(logits + begin * w, n, w), 1 / temperature, z);
    c.largest(z, 1, true, top);
    c.at_least(top, -std::numeric_limits<float>::max(), top);
    if (whole) {
      c.run(c.op().aclnnGather, z, std::int64_t{1}, c.view(targets + begin, {n, 1}), target);
      c.copy(state.target, target);
    } else {
      const tile_targets where(c, targets + begin, n, first, w);
      c.run(c.op().aclnnGather, z, std::int64_t{1}, where.place(), target);
      if (first == 0) c.fill(by, 0);
      c.where(where.inside(), target, first == 0 ? by : state.target, state.target);
    }
    if (first > 0) c.run(c.op().aclnnMaximum, top, state.top, top);
    c.sub(z, top, z);
    c.exp(z, e);
    c.at_least(z, least_log_prob, z);
    c.sum(e, 1, true, total);
    c.mul(e, z, e);
    c.sum(e, 1, true, weighted);
    if (first > 0) {  // rescales the sums of earlier tiles to the new top
      c.sub(state.top, top, by);
      c.exp(by, factor);
      c.mul(by, state.total, by);
      c.add(by, state.weighted, by);
      c.mul(by, factor, by);
      c.add(weighted, by, weighted);
      c.mul(state.total, factor, by);
      c.add(total, by, total);
    }
    c.copy(c.view(states + 6 * begin, {n, 3}, {6, 1}), c.view(room.data(), {n, 3}, {1, n}));
  });
}

RLCORE_INLINE void merge(context& c, float* a, const float* b, extent_t t) {
  if (t == 0) return;
  const state_columns one(c, a, t), other(c, b, t);
  const auto room = c.take<float>(6 * t);
  const auto part = [&](extent_t k) { return c.view(room.data() + k * t, {t, 1}); };
  const auto top = part(0), total = part(1), weighted = part(2), by = part(3), factor = part(4), target = part(5);
  c.run(c.op().aclnnMaximum, one.top, other.top, top);
  for (const state_columns* s : {&one, &other}) {  // rescales the sums to the larger top
    c.sub(s->top, top, by);
    c.exp(by, factor);
    c.at_least(by, least_log_prob, by);
    c.mul(by, s->total, by);
    c.add(by, s->weighted, by);
    c.mul(by, factor, s == &one ? weighted : by);
    c.mul(s->total, factor, s == &one ? total : factor);
  }
  c.add(weighted, by, weighted);
  c.add(total, factor, total);
  c.add(one.target, other.target, target);
  c.copy(c.view(a, {t, 3}, {6, 1}), c.view(room.data(), {t, 3}, {1, t}));
  c.copy(one.target, target);
}

RLCORE_INLINE void finish(context& c, const float* states, extent_t t, float* logp, float* entropy, float* statistics) {
  if (t == 0) return;
  const state_columns state(c, states, t);
  const auto room = c.take<float>(2 * t);
  const auto log_total = c.view(room.data(), {t, 1}), other = c.view(room.data() + t, {t, 1});
  c.log(state.total, log_total);
  c.sub(state.target, state.top, other);
  c.sub(other, log_total, c.view(logp, {t, 1}));
  if (entropy != nullptr) {
    c.run(c.op().aclnnDiv, state.weighted, state.total, other);
    c.sub(log_total, other, c.view(entropy, {t, 1}));
  }
  if (statistics != nullptr) {
    c.copy(c.view(statistics, {t, 1}, {2, 1}), state.top);
    c.copy(c.view(statistics + 1, {t, 1}, {2, 1}), log_total);
  }
}

RLCORE_INLINE void log_prob_backward(context& c, float* logits, extent_t t, extent_t w, extent_t first,
                                     const std::int32_t* targets, float temperature, const float* dlogp,
                                     const float* dentropy, const float* entropy, const float* statistics) {
  for_pieces(t, w, most_temporary, [&](extent_t begin, extent_t n) {
    const auto column = [&](const float* p) { return c.view(p + begin, {n, 1}); };
    const auto shares = c.take<float>(n * w), room = c.take<float>(4 * n);
    const auto z = c.rows(logits + begin * w, n, w), p = c.rows(shares.data(), n, w);
    const auto part = [&](extent_t k) { return c.view(room.data() + k * n, {n, 1}); };
    const auto shift = part(0), a = part(1), b = part(2), target = part(3);
    const float* s = statistics + 2 * begin;
    c.add(c.view(s, {n, 1}, {2, 1}), c.view(s + 1, {n, 1}, {2, 1}), shift);
    c.mul(z, 1 / temperature, z);
    c.sub(z, shift, z);
    c.exp(z, p);
    c.at_least(z, least_log_prob, z);
    c.mul(column(dentropy), column(entropy), a);
    c.add(a, column(dlogp), a);
    c.mul(a, -1 / temperature, a);
    c.mul(column(dentropy), -1 / temperature, b);
    c.mul(z, b, z);
    c.add(z, a, z);
    c.mul(z, p, z);
    // The target's term, 0 if the target is in another tile.
    const tile_targets where(c, targets + begin, n, first, w);
    c.cast(where.inside(), b);
    c.mul(b, column(dlogp), b);
    c.mul(b, 1 / temperature, b);
    c.run(c.op().aclnnGather, z, std::int64_t{1}, where.place(), target);
    c.add(target, b, target);
    c.run(c.op().aclnnIndexPutImpl, c.view(logits + begin * w, {n * w}), c.q.list({where.flat(w)}),
          c.view(room.data() + 3 * n, {n}), false, false);
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
