// Rotary position embedding (RoPE) on the NPU, halves convention.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Turns pairs (j, j + d/2) by +-angle. The table rows of the positions are gathered once per pass and reused by later
/// layers.
class rotation {
 public:
  /// Turns `heads` heads of d elements in each of t rows in place; `cosine` and `sine` are tables [positions, d/2].
  void operator()(context& c, float* x, extent_t row, extent_t heads, extent_t d, const std::int32_t* positions,
                  const float* cosine, const float* sine, extent_t t, bool inverse);
  /// The range has been overwritten: gathers rows that depend on it again.
  void written(const memory_range& where) noexcept { kept_.written(where); }

 private:
  /// [t, d] with both halves alike.
  void prepare(context& c, extent_t d, const std::int32_t* positions, const float* cosine, const float* sine,
               extent_t t);
  void negate(context& c) {
    if (negated_) return;
    negated_ = c.take<float>(t_ * d_);
    c.run(c.op().aclnnNeg, c.rows(sine_->data(), t_, d_), c.rows(negated_->data(), t_, d_));
  }

  static void turn(context& c, float* x, extent_t row, extent_t heads, extent_t d, const float* cosine,
                   const float* sine, extent_t t);
  /// (a, b) <- (a cos - b sin, b cos + a sin).
  static void turn_halves(context& c, float* x, extent_t row, extent_t heads, extent_t d, const float* cosine,
                          const float* sine, extent_t t);

  derived kept_;
  std::array<const void*, 3> sources_{};
  extent_t t_ = 0, d_ = 0;
  std::optional<scratch<float>> cosine_, sine_, negated_;
};

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void rotation::operator()(context& c, float* x, extent_t row, extent_t heads, extent_t d,
                                        const std::int32_t* positions, const float* cosine, const float* sine,
                                        extent_t t, bool inverse) {
  if (t * heads * d == 0) return;
  prepare(c, d, positions, cosine, sine, t);
  if (inverse) negate(c);
  const float *co = cosine_->data(), *si = inverse ? negated_->data() : sine_->data();
  // The operator's limits: fewer than 1000 heads of fewer than 896 elements.
  const bool fused = c.op().aclnnRotaryPositionEmbedding && heads < 1000 && d < 896;
  for_pieces(t, heads * d, most_elements, [&](extent_t first, extent_t n) {
    float* from = x + first * row;
    if (fused)
      turn(c, from, row, heads, d, co + first * d, si + first * d, n);
    else
      turn_halves(c, from, row, heads, d, co + first * d, si + first * d, n);
  });
}

RLCORE_INLINE void rotation::prepare(context& c, extent_t d, const std::int32_t* positions, const float* cosine,
                                     const float* sine, extent_t t) {
  const std::array<const void*, 3> sources{positions, cosine, sine};
  if (kept_.valid() && sources == sources_ && t <= t_ && d == d_) return;
  kept_.forget();
  const extent_t half = d / 2;
  cosine_.reset(), sine_.reset(), negated_.reset();
  cosine_ = c.take<float>(t * d), sine_ = c.take<float>(t * d);
  const auto one = c.take<float>(t * half);
  for (const auto& [table, to] : {std::pair{cosine, cosine_->data()}, std::pair{sine, sine_->data()}}) {
    c.select(c.rows(table, c.rows_from(table, half), half), c.view(positions, {t}), c.rows(one.data(), t, half));
    c.copy(c.view(to, {t, 2, half}), c.view(one.data(), {t, 1, half}));
  }
  kept_.made_from(
      {{positions, static_cast<std::size_t>(t) * sizeof(std::int32_t)}, c.memory.from(cosine), c.memory.from(sine)});
  sources_ = sources, t_ = t, d_ = d;
}

RLCORE_INLINE void rotation::turn(context& c, float* x, extent_t row, extent_t heads, extent_t d, const float* cosine,
                                  const float* sine, extent_t t) {
  const auto rows = c.view(x, {1, t, heads, d}, {t * row, row, d, 1});
  const auto room = c.take<float>(t * heads * d);
  const auto turned = c.view(room.data(), {1, t, heads, d});  // the operator writes no rows with gaps
  c.run(c.op().aclnnRotaryPositionEmbedding, rows, c.view(cosine, {1, t, 1, d}), c.view(sine, {1, t, 1, d}),
        std::int64_t{0}, turned);
  c.copy(rows, turned);
}

RLCORE_INLINE void rotation::turn_halves(context& c, float* x, extent_t row, extent_t heads, extent_t d,
                                         const float* cosine, const float* sine, extent_t t) {
  const extent_t half = d / 2;
  const auto piece = [&](const float* p) { return c.view(p, {t, heads, half}, {row, d, 1}); };
  const auto table = [&](const float* p) { return c.view(p, {t, 1, half}, {d, d, 1}); };
  const auto first = piece(x), second = piece(x + half), co = table(cosine), si = table(sine);
  const auto room = c.take<float>(4 * t * heads * half);
  const auto part = [&](extent_t n) { return c.view(room.data() + n * t * heads * half, {t, heads, half}); };
  const auto ac = part(0), bs = part(1), bc = part(2), as = part(3);
  c.mul(first, co, ac);
  c.mul(second, si, bs);
  c.mul(second, co, bc);
  c.mul(first, si, as);
  c.sub(ac, bs, first);
  c.add(bc, as, second);
}

}  // namespace ascend::kernels
RLCORE_END
#endif
