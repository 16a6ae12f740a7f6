// Root mean square norms.
#pragma once

#include <cstdint>

#include "rlcore/device/device.hpp"
#include "rlcore/device/npu/kernels/context.hpp"

RLCORE_BEGIN
namespace ascend::kernels {

/// Row t of a norm's pieces: [n, groups, width].
template <class T>
tensor_argument norm_rows(const context& c, const norm_arguments& a, const T* p, extent_t n, extent_t row) {
  return c.view(p, {n, a.groups, a.width}, {row, a.width, 1});
}

/// y = weight (x rstd), one rounding of the products; rstd = (mean x^2 + eps)^-1/2.
inline void rms_norm_forward(context& c, const norm_arguments& a, float* y, extent_t y_row, const float* x, float* rstd,
                             extent_t t) {
  for_pieces(t, a.groups * a.width, most_elements, [&](extent_t first, extent_t n) {
    c.q.run(c.op().aclnnRmsNorm, norm_rows(c, a, x + first * a.row, n, a.row), c.view(a.weight, {a.width}), a.eps,
            norm_rows(c, a, y + first * y_row, n, y_row), c.view(rstd + first * a.groups, {n, a.groups, 1}));
  });
}

/// total = a + b and its norm.
inline void add_rms_norm_forward(context& c, const norm_arguments& n, float* total, const float* a, const float* b,
                                 float* y, float* rstd, extent_t t) {
  const extent_t w = n.width;
  const bool fused = c.op().aclnnAddRmsNorm && total != a && total != b;
  for_pieces(t, w, most_elements, [&](extent_t first, extent_t m) {
    const auto left = c.rows(a + first * w, m, w), right = c.rows(b + first * w, m, w),
               sum = c.rows(total + first * w, m, w), to = c.rows(y + first * w, m, w),
               deviation = c.view(rstd + first, {m, 1}), weight = c.view(n.weight, {w});
    if (fused) return c.q.run(c.op().aclnnAddRmsNorm, left, right, weight, n.eps, to, deviation, sum);
    c.add(left, right, sum);
    c.q.run(c.op().aclnnRmsNorm, sum, weight, n.eps, to, deviation);
  });
}

/// dx (+)= rstd (weight dy - xn mean(weight dy xn)), if dx is not null; dweight += dy xn, if that is not null.
inline void rms_norm_backward(context& c, const norm_arguments& a, float* dx, float* dweight, const float* dy,
                              extent_t dy_row, const float* x, const float* rstd, extent_t t, bool accumulate) {
  for_pieces(t, a.groups * a.width, most_elements, [&](extent_t first, extent_t n) {
    const bool direct = dx != nullptr && dx != dy && !accumulate;
    const auto slopes = c.take<float>(direct ? 0 : n * a.groups * a.width), dgamma = c.take<float>(a.width);
    const auto to = norm_rows(c, a, dx != nullptr ? dx + first * dy_row : nullptr, n, dy_row);
    const auto result =
        direct ? norm_rows(c, a, dx + first * dy_row, n, dy_row) : c.view(slopes.data(), {n, a.groups, a.width});
    c.q.run(c.op().aclnnRmsNormGrad, norm_rows(c, a, dy + first * dy_row, n, dy_row),
            norm_rows(c, a, x + first * a.row, n, a.row), c.view(rstd + first * a.groups, {n, a.groups, 1}),
            c.view(a.weight, {a.width}), result, c.view(dgamma.data(), {a.width}));
    if (dx != nullptr && accumulate) c.add(to, result, to);
    if (dx != nullptr && !accumulate && !direct) c.copy(to, result);
    if (dweight != nullptr)
      c.add(c.view(dweight, {a.width}), c.view(dgamma.data(), {a.width}), c.view(dweight, {a.width}));
  });
}

}  // namespace ascend::kernels
RLCORE_END
