// Activations on the NPU: SwiGLU (silu(gate) up of rows [gate | up]) and GELU (Hendrycks and Gimpel 2016).
#pragma once

#include <array>
#include <cstdint>

#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// y[t,w] = silu(gate) up of gate_up [t, 2w]: by SwiGlu, or by Silu and Mul where CANN lacks it.
void swiglu_forward(context& c, float* y, const float* gate_up, extent_t t, extent_t w);

/// dgate_up may be gate_up. SwiGluGrad requires rows of whole blocks of 64 bytes.
void swiglu_backward(context& c, float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w);

namespace detail {

/// Values that both passes need, n elements each: |x|, exp(-x^2 / 2), and the tail P(X > |x|), the second times half a
/// polynomial in 1 / (1 + 0.4 |x| / sqrt 2) as in device/cpu/gelu.inc.
struct normal_tail {
  scratch<float> size, bell, tail;

  normal_tail(context& c, const float* x, extent_t n);
};

}  // namespace detail

/// y = max(x, 0) - |x| P(X > |x|), n elements.
void gelu_forward(context& c, float* y, const float* x, extent_t n);

/// dx = dy (P(X < x) + x exp(-x^2 / 2) / sqrt(2 pi)); dx may be dy.
void gelu_backward(context& c, float* dx, const float* dy, const float* x, extent_t n);

}  // namespace ascend::kernels
RLCORE_END

#if !defined(RLCORE_COMPILED) || defined(RLCORE_SOURCE_DEVICE)
RLCORE_BEGIN
namespace ascend::kernels {

RLCORE_INLINE void swiglu_forward(context& c, float* y, const float* gate_up, extent_t t, extent_t w) {
  if (w == 0) return;
  for_pieces(t, 2 * w, most_elements, [&](extent_t first, extent_t n) {
    const float* in = gate_up + first * 2 * w;
    const auto to = c.rows(y + first * w, n, w);
    if (c.op().aclnnSwiGlu) return c.run(c.op().aclnnSwiGlu, c.rows(in, n, 2 * w), std::int64_t{-1}, to);
    c.run(c.op().aclnnSilu, c.rows(in, n, w, 2 * w), to);
    c.mul(to, c.rows(in + w, n, w, 2 * w), to);
  });
}

RLCORE_INLINE void swiglu_backward(context& c, float* dgate_up, const float* dy, const float* gate_up, extent_t t,
                                   extent_t w) {
  if (w == 0) return;
  const bool fused = c.op().aclnnSwiGluGrad && w % 16 == 0;
  for_pieces(t, 2 * w, most_elements, [&](extent_t first, extent_t n) {
    const float* in = gate_up + first * 2 * w;
    float* out = dgate_up + first * 2 * w;
    const auto slopes = c.rows(dy + first * w, n, w);
    if (fused) {
      if (out != in)
        return c.run(c.op().aclnnSwiGluGrad, slopes, c.rows(in, n, 2 * w), std::int64_t{-1}, c.rows(out, n, 2 * w));
      const auto result = c.take<float>(n * 2 * w);
      c.run(c.op().aclnnSwiGluGrad, slopes, c.rows(in, n, 2 * w), std::int64_t{-1}, c.rows(result.data(), n, 2 * w));
      return c.copy(c.rows(out, n, 2 * w), c.rows(result.data(), n, 2 * w));
    }
    const auto silu = c.take<float>(n * w), product = c.take<float>(n * w);
    const auto gate = c.rows(in, n, w, 2 * w), up = c.rows(in + w, n, w, 2 * w);
    c.run(c.op().aclnnSilu, gate, c.rows(silu.data(), n, w));
    c.mul(slopes, up, c.rows(product.data(), n, w));
    c.mul(slopes, c.rows(silu.data(), n, w), c.rows(out + w, n, w, 2 * w));
    c.run(c.op().aclnnSiluBackward, c.rows(product.data(), n, w), gate, c.rows(out, n, w, 2 * w));
  });
}

}  // namespace ascend::kernels

namespace ascend::kernels::detail {

RLCORE_INLINE normal_tail::normal_tail(context& c, const float* x, extent_t n)
    : size(c.take<float>(n)), bell(c.take<float>(n)), tail(c.take<float>(n)) {
  const auto in = c.view(x, {n}), magnitude = c.view(size.data(), {n}), e = c.view(bell.data(), {n}),
             sum = c.view(tail.data(), {n});
  c.mul(in, -1.0f, magnitude);
  c.run(c.op().aclnnMaximum, in, magnitude, magnitude);
  c.mul(in, in, e);
  c.mul(e, -0.5f, e);
  c.exp(e, e);
  const auto fraction = c.take<float>(n);
  const auto t = c.view(fraction.data(), {n});
  c.mul(magnitude, 0.28284271f, sum);
  c.add(sum, 1.0f, sum);
  c.fill(t, 1.0f);
  c.run(c.op().aclnnDiv, t, sum, t);
  c.fill(sum, 0.08226782f);
  for (const float coefficient : {-0.43668649f, 0.78000534f, -0.49545336f, 0.50310922f, 0.0939437747f, 0.249915868f,
                                  0.222744197f, 0.000153590983f}) {
    c.mul(sum, t, sum);
    c.add(sum, coefficient, sum);
  }
  c.mul(sum, e, sum);
  c.mul(sum, 0.5f, sum);
}

}  // namespace ascend::kernels::detail

namespace ascend::kernels {

RLCORE_INLINE void gelu_forward(context& c, float* y, const float* x, extent_t n) {
  for_pieces(n, 1, most_elements, [&](extent_t first, extent_t count) {
    const detail::normal_tail parts(c, x + first, count);
    const auto lost = c.view(parts.size.data(), {count}), to = c.view(y + first, {count});
    c.mul(lost, c.view(parts.tail.data(), {count}), lost);
    c.at_least(c.view(x + first, {count}), 0.0f, to);
    c.sub(to, lost, to);
  });
}

RLCORE_INLINE void gelu_backward(context& c, float* dx, const float* dy, const float* x, extent_t n) {
  for_pieces(n, 1, most_elements, [&](extent_t first, extent_t count) {
    const detail::normal_tail parts(c, x + first, count);
    const auto in = c.view(x + first, {count}), bell = c.view(parts.bell.data(), {count}),
               tail = c.view(parts.tail.data(), {count}), above = c.view(parts.size.data(), {count});
    c.mul(bell, 0.39894228f, bell);
    c.mul(bell, in, bell);
    c.add(bell, tail, bell);
    // P(X < x) = tail + [x > 0] (1 - 2 tail)
    c.mul(in, 3e38f, above);
    c.run(c.op().aclnnClamp, above, c.q.scalar(0.0f), c.q.scalar(1.0f), above);
    c.mul(tail, -2.0f, tail);
    c.add(tail, 1.0f, tail);
    c.mul(above, tail, above);
    c.add(bell, above, bell);
    c.mul(bell, c.view(dy + first, {count}), c.view(dx + first, {count}));
  });
}

}  // namespace ascend::kernels
RLCORE_END
#endif
