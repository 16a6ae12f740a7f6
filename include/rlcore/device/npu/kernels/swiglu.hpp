// SwiGLU on the NPU: silu(gate) up of rows [gate | up].
#pragma once

#include <cstdint>

#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// y[t,w] = silu(gate) up of gate_up [t, 2w]: by SwiGlu, or by Silu and Mul where CANN lacks it.
void swiglu_forward(context& c, float* y, const float* gate_up, extent_t t, extent_t w);

/// dgate_up may be gate_up. SwiGluGrad requires rows of whole blocks of 64 bytes.
void swiglu_backward(context& c, float* dgate_up, const float* dy, const float* gate_up, extent_t t, extent_t w);

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
RLCORE_END
#endif
